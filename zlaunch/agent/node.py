"""The agent: owns the workers of one node, and does not outlive them or its link.

It reads orders from the link and writes events to it. When the link closes, whoever stands
at its other end is gone, and the agent stops its workers by itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

from zlaunch.agent.commands import node_environment, with_interpreter
from zlaunch.agent.files import Files
from zlaunch.agent.scout import Scout
from zlaunch.run.messages import (
    Closed,
    Event,
    Exit,
    Exited,
    Farewell,
    FindRoute,
    Inspect,
    Listen,
    Message,
    Output,
    Ping,
    Pong,
    Reach,
    Ready,
    Refused,
    Signal,
    Start,
    Started,
    Stop,
    Told,
)
from zlaunch.run.wire import Decoder, ProtocolError, encode
from zlaunch.spec.worker import WorkerSpec
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.routes import ends_of_ssh
from zlaunch.system.spawn import Process, adopt_orphans, reap_orphans, sweep
from zlaunch.system.stream import OutStream

_CHUNK = 256 << 10  # bytes read from a worker at once
_PIPEFUL = 4  # chunks, the most that a pipe holds by default
_HIGH_WATER = 4 << 20  # bytes waiting for the launcher; above, workers are not read
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


class Agent:
    """One node's loop."""

    def __init__(self, node_rank: int, link_in: int, link_out: int) -> None:
        self._node_rank = node_rank
        self._loop = Loop()
        self._decoder = Decoder()
        self._link_in = link_in
        self._out = OutStream(self._loop, link_out, on_drained=self._resume)
        self._workers: dict[int, _Worker] = {}
        self._grace = 0.0
        self._scout = Scout(node_rank, self._loop, self._send)
        self._files = Files()
        self._silence: Timer | None = None
        self._kill_timer: Timer | None = None
        self._killing = False
        self._paused = False
        self._launcher_gone = False
        self._started = False
        self.farewell: Farewell | None = None

    def run(self) -> None:
        """Serve until the link is closed and no worker is left."""
        adopt_orphans()
        self._loop.on_stop_signals(self._told)
        self._loop.on_signal([signal.SIGCHLD], lambda _: self._reap())
        os.set_blocking(self._link_in, False)
        self._loop.watch(self._link_in, READ, self._read_orders)
        self._send(Ready(self._node_rank, os.getpid(), self._scout.port, *ends_of_ssh()))
        try:
            self._loop.run()
        finally:  # whatever goes wrong here, the workers do not outlive it
            self._kill()
            sweep()
            self._files.remove()

    # The link

    def _send(self, event: Event) -> None:
        self._out.write(encode(event))

    def _read_orders(self) -> None:
        data = read_chunk(self._link_in, _CHUNK)
        if data is None:
            return
        if not data:
            self._lose_launcher()
            return
        try:
            orders = list(self._decoder.feed(data))
        except ProtocolError as error:
            print(f"what was read is no order: {error}", file=sys.stderr)  # noqa: T201
            self._lose_launcher()  # whoever speaks there is no launcher
            return
        for order in orders:
            self._obey(order)

    def _obey(self, order: Message) -> None:
        if isinstance(order, Start):
            self._start(order)
        elif isinstance(order, Stop):
            self._stop(order.grace)
        elif isinstance(order, Signal):
            self._pass_on(order.signum)
        elif isinstance(order, (FindRoute, Inspect, Listen, Reach)):
            self._scout.answer(order)
        elif isinstance(order, Ping):
            self._answer(order)
        elif isinstance(order, Farewell):
            self.farewell = order

    def _answer(self, ping: Ping) -> None:
        """Say that we live, and set the time by which the launcher has to say so again."""
        self._send(Pong(self._node_rank, time.time()))
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self._loop.after(ping.within, self._lose_launcher)

    def _lose_launcher(self) -> None:
        if self._launcher_gone:
            return
        self._loop.unwatch(self._link_in, READ)
        self._out.close()
        self._launcher_gone = True
        self._resume()
        self._stop(self._grace)
        self._leave_if_done()

    # Starting

    def _start(self, order: Start) -> None:
        self._started = True
        self._grace = order.grace
        self._scout.let_go()
        plan = order.plan
        try:
            self._files.write(plan.files)
        except OSError as error:
            for spec in plan.workers:
                self._send(Refused(spec.rank, f"{error.filename}: {error.strerror}"))
            return
        shared = node_environment(plan)
        for spec in plan.workers:
            chosen = replace(spec, argv=with_interpreter(plan, spec))
            self._start_worker(chosen, {**shared, **spec.env})

    def _start_worker(self, spec: WorkerSpec, env: dict[str, str]) -> None:
        try:
            process = Process(spec.argv, env, spec.cwd)
        except OSError as error:
            self._send(Refused(spec.rank, f"{error.filename or spec.argv[0]}: {error.strerror}"))
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
        if not self._launcher_gone:
            self._send(Output(worker.rank, data))
            if self._out.pending > _HIGH_WATER:
                self._pause()

    def _pause(self) -> None:
        """Leave output in the workers' pipes until the launcher has taken what waits."""
        self._paused = True
        for worker in self._workers.values():
            self._loop.unwatch(worker.process.fd, READ)

    def _resume(self) -> None:
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

    def _reap(self) -> None:
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
                self._leave_if_done()
        else:
            # Whoever still holds the pipe has left the group; what is written by now counts.
            self._loop.after(self._linger, partial(self._close_pipe, worker))

    @property
    def _linger(self) -> float:
        """Seconds for what outlives a main process; none once the grace is over."""
        return 0.0 if self._killing else _LINGER

    def _told(self, signum: int) -> None:
        """Stop, and have the launcher stop the other nodes too: ranks may end with 0 upon TERM."""
        if signum != signal.SIGHUP:  # the end of a keeper sends it too, and is nobody's wish
            self._send(Told(self._node_rank, signum))
        self._stop(self._grace)

    def _stop(self, grace: float) -> None:
        for worker in self._workers.values():
            if worker.exit is None and grace > 0 and not worker.told:
                worker.told = True
                worker.process.signal(signal.SIGTERM)
                worker.process.signal(signal.SIGCONT)  # a stopped process cannot obey
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._kill_timer = self._loop.after(grace, self._kill)

    def _kill(self) -> None:
        self._killing = True
        for worker in self._workers.values():
            if not worker.group_ended:
                worker.process.kill_group()

    def _pass_on(self, signum: int) -> None:
        for worker in self._workers.values():
            if worker.exit is None:
                worker.process.signal(signum)

    def _leave_if_done(self) -> None:
        """With no worker left: sweep, and go once the launcher has let go of the link."""
        if self._workers:
            return
        if self._started:
            sweep()
        if self._launcher_gone:
            self._loop.stop()


def serve(node_rank: int) -> None:
    """Take the link off stdin and stdout, so that no stray print can garble it, and run."""
    link_in, link_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    Agent(node_rank, link_in, link_out).run()
