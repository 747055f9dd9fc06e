"""The agent: owns the workers of one node, and does not outlive them or its link.

It reads orders from the link and writes events to it. When the link closes, whoever stands
at its other end is gone, and the agent stops its workers by itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Collection, Mapping
from typing import Any, Callable

from zlaunch.agent.files import Files
from zlaunch.agent.keeper import Will
from zlaunch.agent.scout import Scout
from zlaunch.agent.stacks import StackTaker
from zlaunch.agent.usage import UsageTaker
from zlaunch.agent.workers import Workers
from zlaunch.run.messages import (
    Event,
    Farewell,
    FindRoute,
    Input,
    Inspect,
    Lease,
    Leave,
    Listen,
    Message,
    Note,
    Output,
    Ping,
    Pong,
    Reach,
    Ready,
    Refused,
    Resize,
    Signal,
    Start,
    Stop,
    Sweep,
    TakeStacks,
    TakeUsage,
    Told,
    Unkillable,
)
from zlaunch.run.wire import PREAMBLE, Decoder, ProtocolError, encode
from zlaunch.spec.worker import NodePlan
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.remains import (
    end_of_dead_agent,
    end_remains,
    name_of,
    scope_name,
    where_it_hangs,
)
from zlaunch.system.routes import ends_of_link
from zlaunch.system.scope import Scope
from zlaunch.system.shared_memory import remove_buffers
from zlaunch.system.spawn import adopt_orphans
from zlaunch.system.stream import OutStream

_CHUNK = 256 << 10  # bytes read from the link at once
_NEVER_FATAL = (signal.SIGUSR1, signal.SIGUSR2)  # to an agent; passed on, unless told otherwise
_HIGH_WATER = 4 << 20  # bytes waiting for the launcher; above, workers are not read


class Agent:
    """One node's loop. `will` tells the keeper, where there is one, what is to be ended."""

    def __init__(
        self, node_rank: int, link_in: int, link_out: int, will: Will | None = None
    ) -> None:
        self._node_rank = node_rank
        self._loop = Loop()
        self._decoder = Decoder()
        self._link_in, self._link_out = link_in, link_out
        self._parent = os.getppid()
        self._workers = Workers(
            self._loop, self._send, self._leave_if_done, self._tell_stuck, self._note
        )
        self._out = OutStream(self._loop, link_out, on_drained=self._workers.resume)
        self._grace = 0.0
        self._scout = Scout(node_rank, self._loop, self._send)
        self._leaseholder: Any = None
        self._files = Files()
        self._stacks = StackTaker(self._loop, self._send)
        self._usage = UsageTaker(node_rank, self._loop, self._send)
        self._silence: Timer | None = None
        self._launcher_gone = False
        self._plan: NodePlan | None = None
        self._mark: tuple[str, ...] = ()
        self._stuck: set[int] = set()
        self._will = will
        self.farewell: Farewell | None = None
        self.keeper_gone = False
        self._acts: Mapping[type, Callable[[Any], object]] = {
            Lease: self._lease,
            Leave: lambda order: self._leaseholder and self._leaseholder.leave(order),
            Start: self._start,
            Stop: lambda order: self._workers.stop(order.grace),
            Signal: lambda order: self._workers.pass_on(order.signum),
            Input: self._workers.stdins.take,
            Resize: self._workers.stdins.resize,
            TakeStacks: lambda order: self._stacks.take(order, self._workers.running()),
            TakeUsage: lambda _: self._usage.take(self._workers.running()),
            **dict.fromkeys((FindRoute, Inspect, Listen, Reach), self._scout.answer),
            Ping: self._answer,
            Sweep: lambda order: end_of_dead_agent(order.mark),
            Farewell: self._note_farewell,
        }

    def run(self) -> None:
        """Serve until the link is closed and no worker is left."""
        adopt_orphans()
        self._loop.on_stop_signals(self._told)
        self._loop.on_signal(_NEVER_FATAL, self._pass_up)
        self._loop.on_signal([signal.SIGCHLD], lambda _: self._workers.reap())
        os.set_blocking(self._link_in, False)
        self._loop.watch(self._link_in, READ, self._read_orders)
        self._out.write(PREAMBLE)
        self._send(Ready(self._node_rank, os.getpid(), self._scout.port, *ends_of_link()))
        try:
            self._loop.run()
        finally:  # whatever goes wrong here, the workers do not outlive it
            self._workers.leave()
            end_remains(self._mark, self._workers.scope, self._stuck)
            self._free_memory()
            if self._workers.scope is not None:
                self._workers.scope.close()
            if self._leaseholder is not None:  # only now: nothing uses a GPU any more
                self._leaseholder.close()
            self._files.remove()
            self._stacks.remove()

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
        act = self._acts.get(type(order))
        if act is not None:
            act(order)

    def _note_farewell(self, order: Farewell) -> None:
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

    def _lease(self, order: Lease) -> None:
        if self._leaseholder is None:
            from zlaunch.agent.leaseholder import Leaseholder  # without GPUs there is no use for it

            self._leaseholder = Leaseholder(self._node_rank, self._loop, self._send)
        self._leaseholder.take(order)

    def _start(self, order: Start) -> None:
        self._plan = plan = order.plan
        self._grace = order.grace
        self._scout.let_go()
        self._claim(plan.mark)
        self._free_memory()  # of a run that met here before
        self._loop.on_signal(signal.valid_signals() & {*order.signals}, self._pass_up)
        try:
            self._files.write(plan.files)
        except OSError as error:
            for spec in plan.workers:
                self._send(Refused(spec.rank, f"{error.filename}: {error.strerror}"))
            return
        self._stacks.prepare(order.handler)
        self._workers.start(plan, self._stacks)

    def _note(self, text: str, level: str) -> None:
        self._send(Note(self._node_rank, text, level))

    def _claim(self, mark: Collection[str]) -> None:
        """Make sure that whatever the workers start can be found again; before the first one."""
        if mark and not self._mark:
            self._mark = tuple(mark)
            self._workers.scope = Scope.make(scope_name(mark))
            if self._will is not None:
                self._will.write(mark, self._grace)

    # Ending

    def _told(self, signum: int) -> None:
        """Stop, and have the launcher stop the other nodes too: ranks may end with 0 upon TERM."""
        if os.getppid() != self._parent:
            self._follow_keeper()
            return
        self._send(Told(self._node_rank, signum))
        self._workers.stop(self._grace)

    def _pass_up(self, signum: int) -> None:
        """All ranks are to get it, not those of this node alone."""
        self._send(Told(self._node_rank, signum))

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
        self._usage.end()
        if self._plan is not None:
            for pid in end_remains(self._mark, self._workers.scope, self._stuck):
                self._tell_stuck(-1, pid)
            self._free_memory()
        if self._launcher_gone:
            self._loop.stop()

    def _free_memory(self) -> None:
        if self._plan is not None:
            for spec in self._plan.workers:
                remove_buffers({**self._plan.env, **spec.env})

    def _tell_stuck(self, rank: int, pid: int) -> None:
        """Name who does not die of KILL; nobody waits for it any longer."""
        self._stuck.add(pid)
        hangs = where_it_hangs(pid)
        self._send(Unkillable(self._node_rank, rank, pid, name_of(pid), *hangs))


def serve(node_rank: int, will: Will | None = None) -> None:
    """Take the link off stdin and stdout, so that no stray print can garble it, and run."""
    link_in, link_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    Agent(node_rank, link_in, link_out, will).run()
