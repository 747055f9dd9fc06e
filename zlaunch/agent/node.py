"""The agent: owns the workers of one node, and does not outlive them or its link.

It reads orders from the link and writes events to it. When the link closes, whoever stands
at its other end is gone, and the agent stops its workers by itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from zlaunch.agent.files import Files
from zlaunch.agent.scout import Scout
from zlaunch.agent.workers import Workers
from zlaunch.run.messages import (
    Event,
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
    Stop,
    Told,
)
from zlaunch.run.wire import PREAMBLE, Decoder, ProtocolError, encode
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.routes import ends_of_ssh
from zlaunch.system.spawn import adopt_orphans, sweep
from zlaunch.system.stream import OutStream

_CHUNK = 256 << 10  # bytes read from the link at once
_HIGH_WATER = 4 << 20  # bytes waiting for the launcher; above, workers are not read


class Agent:
    """One node's loop."""

    def __init__(self, node_rank: int, link_in: int, link_out: int) -> None:
        self._node_rank = node_rank
        self._loop = Loop()
        self._decoder = Decoder()
        self._link_in, self._link_out = link_in, link_out
        self._parent = os.getppid()
        self._workers = Workers(self._loop, self._send, self._leave_if_done)
        self._out = OutStream(self._loop, link_out, on_drained=self._workers.resume)
        self._grace = 0.0
        self._scout = Scout(node_rank, self._loop, self._send)
        self._files = Files()
        self._silence: Timer | None = None
        self._launcher_gone = False
        self._started = False
        self.farewell: Farewell | None = None
        self.keeper_gone = False

    def run(self) -> None:
        """Serve until the link is closed and no worker is left."""
        adopt_orphans()
        self._loop.on_stop_signals(self._told)
        self._loop.on_signal([signal.SIGCHLD], lambda _: self._workers.reap())
        os.set_blocking(self._link_in, False)
        self._loop.watch(self._link_in, READ, self._read_orders)
        self._out.write(PREAMBLE)
        self._send(Ready(self._node_rank, os.getpid(), self._scout.port, *ends_of_ssh()))
        try:
            self._loop.run()
        finally:  # whatever goes wrong here, the workers do not outlive it
            self._workers.kill()
            sweep()
            self._files.remove()

    # The link

    def _send(self, event: Event) -> None:
        self._out.write(encode(event))
        if isinstance(event, Output) and self._out.pending > _HIGH_WATER:
            self._workers.pause()

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
            self._workers.stop(order.grace)
        elif isinstance(order, Signal):
            self._workers.pass_on(order.signum)
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
        self._workers.muted = True
        self._workers.resume()
        self._workers.stop(self._grace)
        self._leave_if_done()

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
        self._workers.start(plan)

    # Ending

    def _told(self, signum: int) -> None:
        """Stop, and have the launcher stop the other nodes too: ranks may end with 0 upon TERM."""
        if signum == signal.SIGHUP and os.getppid() != self._parent:
            self._follow_keeper()
            return
        self._send(Told(self._node_rank, signum))
        self._workers.stop(self._grace)

    def _follow_keeper(self) -> None:
        """Our keeper was killed: be as dead to the launcher, and end what is here."""
        null = os.open(os.devnull, os.O_RDWR)
        self.keeper_gone = True
        self._lose_launcher()
        os.dup2(null, self._link_out)
        os.close(null)

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
