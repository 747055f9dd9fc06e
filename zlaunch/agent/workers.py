"""The workers of a node: started, read, stopped, killed, closed once nothing of them is left."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Callable

from zlaunch.agent.commands import node_environment, with_interpreter
from zlaunch.run.messages import Closed, Event, Exit, Exited, Output, Refused, Started
from zlaunch.spec.worker import NodePlan, WorkerSpec
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.spawn import Process, reap_orphans

_CHUNK = 256 << 10  # bytes read from a worker at once
_PIPEFUL = 4  # chunks, the most that a pipe holds by default
_LINGER = 1.0  # seconds that the rest of a group may go on writing after its main process


class _Worker:
    """A started rank and how far its end has come."""

    def __init__(self, rank: int, process: Process) -> None:
        self.rank = rank
        self.process = process
        self.exit: Exit | None = None
        self.told = False  # to end, by TERM
        self.group_ended = False
        self.drained = False


class Workers:
    """All ranks of a node. `on_none_left` is called each time that the last one is closed.

    What ranks write is sent on while `muted` is false. `pause` leaves it in their pipes.
    """

    def __init__(
        self, loop: Loop, send: Callable[[Event], None], on_none_left: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._send = send
        self._on_none_left = on_none_left
        self._workers: dict[int, _Worker] = {}
        self._kill_timer: Timer | None = None
        self._killing = False
        self._paused = False
        self.muted = False

    def __bool__(self) -> bool:
        """Whether a rank is left."""
        return bool(self._workers)

    # Starting

    def start(self, plan: NodePlan) -> None:
        """Start every rank of the plan; one that cannot be is refused."""
        shared = node_environment(plan)
        for spec in plan.workers:
            chosen = replace(spec, argv=with_interpreter(plan, spec))
            self._start_worker(chosen, {**shared, **spec.env})

    def _start_worker(self, spec: WorkerSpec, env: dict[str, str]) -> None:
        try:
            process = Process(spec.argv, env, spec.cwd)
        except OSError as error:
            self._send(Refused(spec.rank, _word(error, spec, env)))
            return
        except (ValueError, subprocess.SubprocessError) as error:
            self._send(Refused(spec.rank, f"{spec.argv[0]}: {error}"))
            return
        self._workers[spec.rank] = worker = _Worker(spec.rank, process)
        self._loop.watch(process.fd, READ, partial(self._read_output, worker))
        self._send(Started(spec.rank, process.pid, time.time()))

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
                    self._send(Exited(worker.rank, worker.exit, time.time()))
                    self._close_if_over(worker)
                    if worker.rank in self._workers:
                        self._loop.after(self._linger, partial(self._end_group, worker))
        reap_orphans({worker.process.pid for worker in self._workers.values()})

    def _close_if_over(self, worker: _Worker) -> None:
        """Once the main process has ended and nobody holds the pipe, the rank is closed."""
        if worker.exit is not None and worker.drained:
            self._end_group(worker)

    def _end_group(self, worker: _Worker) -> None:
        if not worker.group_ended:
            worker.group_ended = True
            worker.process.end_group()
        if worker.drained:
            if self._workers.pop(worker.rank, None) is not None:
                self._send(Closed(worker.rank))
                if not self._workers:
                    self._on_none_left()
        else:
            # Whoever still holds the pipe has left the group; what is written by now counts.
            self._loop.after(self._linger, partial(self._close_pipe, worker))

    @property
    def _linger(self) -> float:
        """Seconds for what outlives a main process; none once the grace is over."""
        return 0.0 if self._killing else _LINGER

    def stop(self, grace: float) -> None:
        """TERM to each main process, once; after `grace` seconds KILL to all groups."""
        for worker in self._workers.values():
            if worker.exit is None and grace > 0 and not worker.told:
                worker.told = True
                worker.process.signal(signal.SIGTERM)
                worker.process.signal(signal.SIGCONT)  # a stopped process cannot obey
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._kill_timer = self._loop.after(grace, self.kill)

    def kill(self) -> None:
        """KILL to every group; what still holds a pipe has had its time."""
        self._killing = True
        for worker in self._workers.values():
            if not worker.group_ended:
                worker.process.kill_group()

    def pass_on(self, signum: int) -> None:
        """Send a signal to each main process."""
        for worker in self._workers.values():
            if worker.exit is None:
                worker.process.signal(signum)


def _word(error: OSError, spec: WorkerSpec, env: Mapping[str, str]) -> str:
    """The system's own word, and of what is too large the largest part."""
    word = f"{error.filename or spec.argv[0]}: {error.strerror}"
    if error.errno != errno.E2BIG or not env:
        return word
    name = max(env, key=lambda name: len(env[name]))
    return f"{word}; the largest variable is {name} with {len(env[name])} characters"
