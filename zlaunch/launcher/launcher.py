"""The launcher's loop: reads agents' events, asks the lifecycle, performs what it says."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from zlaunch.backends.base import Backend, Link
from zlaunch.errors import BackendError
from zlaunch.launcher.output import Output
from zlaunch.launcher.report import describe_ranks
from zlaunch.run import lifecycle
from zlaunch.run.lifecycle import (
    Action,
    AgentLost,
    DeadlinePassed,
    Finish,
    Happening,
    Interrupted,
    RunState,
    SetDeadline,
    StartWorkers,
    StopWorkers,
)
from zlaunch.run.messages import (
    Closed,
    Decoder,
    Exited,
    Message,
    Order,
    ProtocolError,
    Refused,
    Signal,
    Start,
    Started,
    Stop,
    encode,
)
from zlaunch.run.messages import (
    Output as OutputEvent,
)
from zlaunch.run.outcome import Outcome
from zlaunch.spec.plan import Plan
from zlaunch.system.console import Console
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.stream import OutStream

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
FORWARDED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)

_CHUNK = 1 << 20  # bytes read from a link at once
_LEAVE = 5.0  # seconds for an agent to go once its link is closed
_LAST_WORDS = 4 << 10  # bytes kept of what an agent prints beside its link


@dataclass
class _Agent:
    """One agent as the launcher sees it."""

    node_rank: int
    link: Link
    orders: OutStream
    decoder: Decoder = field(default_factory=Decoder)
    words: bytes = b""
    lost: bool = False


class Launcher:
    """Runs one plan from the first agent to the last word. Used once."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        loop: Loop,
        console: Console,
        output: Output,
        grace: float,
    ) -> None:
        self._plan = plan
        self._backend = backend
        self._loop = loop
        self._console = console
        self._output = output
        self._agents: dict[int, _Agent] = {}
        self._deadline: Timer | None = None
        self._outcome: Outcome | None = None
        self.pids: dict[int, int] = {}
        nodes = {
            node.rank: frozenset(worker.rank for worker in plan.topology.on_node(node.rank))
            for node in plan.topology.nodes
        }
        self._state = RunState.begin(nodes, grace)

    def run(self) -> Outcome:
        """Start all ranks, see them through, and return how it ended."""
        self._install_handlers()
        self._console.when_room(self._resume)
        try:
            for node in self._plan.topology.nodes:
                self._reach(node.rank, node.host)
            self._loop.run()
        finally:
            self._let_go()
        assert self._outcome is not None
        return self._outcome

    def _install_handlers(self) -> None:
        """Before the first start, so that no signal finds ranks without somebody to stop them.

        A signal that is ignored already stays so: `nohup zlaunch` lives on after a hang-up.
        """
        stops = [s for s in STOP_SIGNALS if signal.getsignal(s) is not signal.SIG_IGN]
        self._loop.on_signal(stops, self._interrupted)
        self._loop.on_signal(FORWARDED_SIGNALS, lambda signum: self._order(Signal(signum)))

    # Agents

    def _reach(self, node_rank: int, host: str) -> None:
        try:
            link = self._backend.open(node_rank, host)
        except BackendError as error:
            self._happen(AgentLost(node_rank, str(error)))
            return
        agent = _Agent(node_rank, link, OutStream(self._loop, link.outgoing))
        self._agents[node_rank] = agent
        os.set_blocking(link.incoming, False)
        self._loop.watch(link.incoming, READ, partial(self._read_events, agent))
        self._loop.watch(link.errors, READ, partial(self._read_words, agent))

    def _read_events(self, agent: _Agent) -> None:
        data = read_chunk(agent.link.incoming, _CHUNK)
        if data is None:
            return
        if not data:
            self._lose(agent, "has ended")
            return
        try:
            self._take(agent.decoder.feed(data))
        except ProtocolError as error:
            self._lose(agent, f"sent what cannot be read: {error}")
        if self._console.full:
            self._pause()

    def _take(self, messages: Iterable[Message]) -> None:
        """Take in what came in one read; output that follows on another of its rank is joined."""
        written: dict[int, list[bytes]] = {}
        for message in messages:
            if isinstance(message, OutputEvent):
                written.setdefault(message.rank, []).append(message.data)
            elif not isinstance(message, (Start, Stop, Signal)):
                self._take_output(written)
                self._note(message)
                self._happen(message)
        self._take_output(written)

    def _take_output(self, written: dict[int, list[bytes]]) -> None:
        for rank, pieces in written.items():
            self._output.take(rank, b"".join(pieces))
        written.clear()

    def _pause(self) -> None:
        """Read no more from the agents until the console's reader has caught up."""
        for agent in self._agents.values():
            self._loop.unwatch(agent.link.incoming, READ)

    def _resume(self) -> None:
        for agent in self._agents.values():
            if not agent.lost:
                self._loop.watch(agent.link.incoming, READ, partial(self._read_events, agent))

    def _read_words(self, agent: _Agent) -> None:
        """Keep the end of what the agent prints: it matters only where the agent is lost."""
        data = read_chunk(agent.link.errors, _CHUNK)
        if data:
            agent.words = (agent.words + data)[-_LAST_WORDS:]
        elif data is not None:
            self._loop.unwatch(agent.link.errors, READ)

    def _lose(self, agent: _Agent, how: str) -> None:
        self._loop.unwatch(agent.link.incoming, READ)
        if agent.lost:
            return
        agent.lost = True
        self._read_words(agent)
        words = agent.words.decode(errors="replace").strip()
        reason = f"the agent on {agent.link.host} {how}" + (f":\n{words}" if words else "")
        self._note(AgentLost(agent.node_rank, reason))
        self._happen(AgentLost(agent.node_rank, reason))

    def _order(self, order: Order) -> None:
        for agent in self._agents.values():
            agent.orders.write(encode(order))

    def _let_go(self) -> None:
        """Close all links; agents stop what is left and leave."""
        self._console.when_room(lambda: None)
        for agent in self._agents.values():
            self._loop.unwatch(agent.link.incoming, READ)
            self._loop.unwatch(agent.link.errors, READ)
            agent.orders.close()
            agent.link.close(_LEAVE)
        self._backend.close()

    # Events

    def _note(self, event: Happening) -> None:
        """Remember an event: pids for the report, everything but output in events.jsonl."""
        if isinstance(event, Started):
            self.pids[event.rank] = event.pid
        elif isinstance(event, Closed):
            self._output.end(event.rank)
        if isinstance(event, (Started, Exited, Refused, AgentLost, Interrupted)):
            fields = {"event": type(event).__name__, "at": time.time(), **vars(event)}
            if isinstance(event, Exited):
                fields["exit"] = vars(event.exit)
            self._output.event(fields)

    def _interrupted(self, signum: int) -> None:
        self._note(Interrupted(signum))
        before = self._state.phase
        self._happen(Interrupted(signum))
        name = signal.Signals(signum).name
        left = describe_ranks(self._state.open)
        if self._state.phase is lifecycle.Phase.STOPPING and self._state.phase is not before:
            self._console.say(f"{name}: stopping {left}; again to kill at once")
        elif self._state.phase is lifecycle.Phase.KILLING and self._state.phase is not before:
            self._console.say(f"{name}: killing {left}")

    def _happen(self, event: Happening) -> None:
        self._state, actions = lifecycle.step(self._state, event, time.monotonic())
        self._perform(actions)

    # Actions

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, StartWorkers):
                for node_plan in self._plan.node_plans:
                    agent = self._agents[node_plan.node_rank]
                    agent.orders.write(encode(Start(node_plan, self._state.grace)))
            elif isinstance(action, StopWorkers):
                self._announce_stop(action)
                self._order(Stop(action.grace))
            elif isinstance(action, SetDeadline):
                if self._deadline is not None:
                    self._deadline.cancel()
                self._deadline = self._loop.at(action.at, partial(self._happen, DeadlinePassed()))
            elif isinstance(action, Finish):
                self._outcome = action.outcome
                self._loop.stop()

    def _announce_stop(self, stop: StopWorkers) -> None:
        """Say why ranks are being stopped, unless the user asked for it and has been answered."""
        left = self._state.open - self._state.exits.keys()
        if left and self._state.stopped_by is None:
            time_given = f" within {stop.grace:g} s" if stop.grace else ""
            self._console.say(f"{stop.why}; stopping {describe_ranks(left)}{time_given}")
