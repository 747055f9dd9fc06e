"""The workers of a node: started, read, stopped, killed, closed once nothing of them is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Callable

from zlaunch.agent.error_file import read_error_file
from zlaunch.agent.signs import Signs
from zlaunch.agent.stacks import StackTaker
from zlaunch.agent.starter import Starter
from zlaunch.agent.stdin import Stdins
from zlaunch.run.messages import Closed, Event, Exit, Exited, Output, Started
from zlaunch.spec.worker import NodePlan, WorkerSpec
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.scope import Scope
from zlaunch.system.spawn import Leader, reap_orphans
from zlaunch.system.stdio import Stdio

_CHUNK = 256 << 10  # bytes read from a worker at once
_PIPEFUL = 4  # chunks, the most that a pipe holds by default
_UNKILLABLE = 4.0  # seconds after KILL; the launcher waits a little longer for our word
_LINGER = 1.0  # seconds that the rest of a group may go on writing after its main process


class _Worker:
    """A started rank and how far its end has come."""

    def __init__(self, rank: int, process: Leader, env: Mapping[str, str]) -> None:
        self.rank = rank
        self.env = env  # what it does not share with the others of the node
        self.process = process
        self.exit: Exit | None = None
        self.told = False  # to end, by TERM
        self.group_ended = False
        self.drained = False


class Workers:
    """All ranks of a node. `on_none_left` is called each time before the last one is closed.

    What ranks write is sent on while `muted` is false. `pause` leaves it in their pipes.
    `on_stuck` is called with the rank and pid of each that does not die, `note` with what the
    user should know.
    """

    def __init__(
        self,
        loop: Loop,
        send: Callable[[Event], None],
        on_none_left: Callable[[], None],
        on_stuck: Callable[[int, int], None],
        note: Callable[[str, str], None],
    ) -> None:
        self._loop = loop
        self._send = send
        self._on_none_left = on_none_left
        self._on_stuck = on_stuck
        self._workers: dict[int, _Worker] = {}
        self._signs = Signs()
        self.stdins = Stdins(loop, send)
        self._kill_timer: Timer | None = None
        self._killing = False
        self._paused = False
        self.muted = False
        self.scope: Scope | None = None  # where workers are put
        self._stopped = False
        self._starter = Starter(
            loop, send, note, self.stdins, self._admit, self._add, self._end_start
        )

    def __bool__(self) -> bool:
        """Whether a rank is left."""
        return bool(self._workers) or self._starter.pending

    # Starting

    def start(self, plan: NodePlan, stacks: StackTaker) -> None:
        """Start every rank of the plan; one that cannot be is refused.

        `stacks` dresses their environment.
        """
        self._killing = self._stopped = False
        if self._kill_timer is not None:  # of an attempt before
            self._kill_timer.cancel()
        self._starter.start(plan, stacks)

    def _admit(self, pid: int) -> None:
        """Put a child where workers are put; 0 for the child that calls."""
        if self.scope is not None:
            self.scope.admit(pid)

    def _add(self, spec: WorkerSpec, process: Leader, stdio: Stdio, said: bytes) -> None:
        """A rank has started; its imports have `said` something before."""
        self._workers[spec.rank] = worker = _Worker(spec.rank, process, spec.env)
        if not self._paused:
            self._loop.watch(process.fd, READ, partial(self._read_output, worker))
        self.stdins.begin(spec.rank, stdio)
        self._send(Started(spec.rank, process.pid, time.time()))
        if said and not self.muted:
            self._send(Output(spec.rank, said))

    def _end_start(self, unstarted: Sequence[int]) -> None:
        """A start is over. Who was to be stopped meanwhile is; some were not even started."""
        for rank in unstarted:  # it would have been at its imports, and would have died of it
            signum = signal.SIGKILL if self._killing else signal.SIGTERM
            self._send(Exited(rank, Exit(signal=signum), time.time(), told=True))
            if not self:
                self._on_none_left()
            self._send(Closed(rank))
        if self._killing:
            self.kill()
        elif self._stopped:
            self._tell_to_end()
        self.reap()

    def running(self) -> dict[int, tuple[int, Mapping[str, str]]]:
        """Pid and own environment of each rank whose main process has not ended."""
        return {
            worker.rank: (worker.process.pid, worker.env)
            for worker in self._workers.values()
            if worker.exit is None
        }

    # Output

    def _read_output(self, worker: _Worker) -> None:
        data = read_chunk(worker.process.fd, _CHUNK)
        if data is None:
            return
        if not data:
            self._close_pipe(worker)
            return
        if not self.muted:
            self._send(Output(worker.rank, data))

    def pause(self) -> None:
        """Read no more until `resume`."""
        self._paused = True
        for worker in self._workers.values():
            self._loop.unwatch(worker.process.fd, READ)

    def resume(self) -> None:
        """Read again."""
        if self._paused:
            self._paused = False
            for worker in self._workers.values():
                if not worker.drained:
                    self._loop.watch(worker.process.fd, READ, partial(self._read_output, worker))

    def _close_pipe(self, worker: _Worker) -> None:
        """Let go of the pipe, after a last look: what is in it was written in time."""
        if not worker.drained:
            # No more than a pipe holds: whoever goes on writing has left the rank.
            for _ in range(_PIPEFUL):
                data = read_chunk(worker.process.fd, _CHUNK)
                if not data:
                    break
                self._send(Output(worker.rank, data))
            self._loop.unwatch(worker.process.fd, READ)
            os.close(worker.process.fd)
            worker.drained = True
            self._close_if_over(worker)

    # Ending

    def reap(self) -> None:
        """See which main processes have ended."""
        for worker in list(self._workers.values()):
            if worker.exit is None:
                worker.exit = worker.process.poll()
                if worker.exit is not None:
                    self.stdins.end(worker.rank)
                    self._send(self._exited(worker, worker.exit))
                    self._close_if_over(worker)
                    if worker.rank in self._workers:
                        self._loop.after(self._linger, partial(self._end_group, worker))
        self._starter.look()
        if not self._starter.pending:  # else a child that nobody knows may be a rank
            reap_orphans({worker.process.pid for worker in self._workers.values()})

    def _exited(self, worker: _Worker, end: Exit) -> Exited:
        """Add what may tell why, where it did not end well."""
        now = time.time()
        if not end.status:
            return Exited(worker.rank, end, now, worker.told)
        error = read_error_file(worker.env.get("TORCHELASTIC_ERROR_FILE", ""))
        return Exited(worker.rank, end, now, worker.told, self._signs.now(), error)

    def _close_if_over(self, worker: _Worker) -> None:
        """Once the main process has ended and nobody holds the pipe, the rank is closed."""
        if worker.exit is not None and worker.drained:
            self._end_group(worker)

    def _end_group(self, worker: _Worker) -> None:
        if not worker.group_ended:
            worker.group_ended = True
            worker.process.end_group()
        if worker.drained:
            self._close(worker)
        else:
            # Whoever still holds the pipe has left the group; what is written by now counts.
            self._loop.after(self._linger, partial(self._close_pipe, worker))

    def _close(self, worker: _Worker) -> None:
        if self._workers.pop(worker.rank, None) is not None:
            if not self:
                self._on_none_left()
            self._send(Closed(worker.rank))

    @property
    def _linger(self) -> float:
        """Seconds for what outlives a main process; none once the grace is over."""
        return 0.0 if self._killing else _LINGER

    def stop(self, grace: float) -> None:
        """TERM to each main process, once; after `grace` seconds KILL to all groups."""
        self._stopped = True
        self._starter.stop()
        if grace > 0:
            self._tell_to_end()
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._kill_timer = self._loop.after(grace, self.kill)

    def _tell_to_end(self) -> None:
        for worker in self._workers.values():
            if worker.exit is None and not worker.told:
                worker.told = True
                worker.process.signal(signal.SIGTERM)
                worker.process.signal(signal.SIGCONT)  # a stopped process cannot obey

    def leave(self) -> None:
        """KILL to every group; nobody waits for what comes of it."""
        self._starter.drop()
        self.kill()

    def kill(self) -> None:
        """KILL to every group; what still holds a pipe has had its time."""
        self._killing = self._stopped = True
        self._starter.stop(now=True)
        for worker in self._workers.values():
            if not worker.group_ended:
                worker.process.kill_group()
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._kill_timer = self._loop.after(_UNKILLABLE, self._give_up)

    def _give_up(self) -> None:
        """Let go of ranks that hang in the kernel; no signal reaches them, and nobody waits."""
        for worker in list(self._workers.values()):
            if worker.exit is None:
                worker.group_ended = True
                self._on_stuck(worker.rank, worker.process.pid)
                self._close_pipe(worker)
                self._close(worker)

    def pass_on(self, signum: int) -> None:
        """Send a signal to each main process."""
        for worker in self._workers.values():
            if worker.exit is None:
                worker.process.signal(signum)
