"""The launcher's loop: reads agents' events, asks the lifecycle, performs what it says."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from functools import partial

from zlaunch.backends.base import Backend
from zlaunch.launcher.agents import Agents, Patience
from zlaunch.launcher.output import Output
from zlaunch.launcher.report import describe_ranks, farewell
from zlaunch.run import lifecycle
from zlaunch.run.lifecycle import (
    Action,
    AgentLost,
    DeadlinePassed,
    FindRendezvous,
    Finish,
    Happening,
    Interrupted,
    RendezvousFound,
    RunState,
    SetDeadline,
    StartWorkers,
    StopWorkers,
)
from zlaunch.run.messages import (
    Asked,
    Closed,
    Exited,
    Farewell,
    FindRoute,
    Message,
    Ping,
    Refused,
    Routed,
    Signal,
    Start,
    Started,
    Stop,
)
from zlaunch.run.messages import (
    Output as OutputEvent,
)
from zlaunch.run.outcome import Outcome
from zlaunch.spec.environment import Rendezvous
from zlaunch.spec.plan import Plan
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop, Timer

FORWARDED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
_LOOPBACK = "127.0.0.1"


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
        patience: Patience,
    ) -> None:
        self._plan = plan
        self._loop = loop
        self._console = console
        self._output = output
        self._agents = Agents(loop, backend, patience, self._take, self._lose)
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
        self._console.when_room(self._agents.resume)
        try:
            self._agents.reach(self._plan.topology.nodes)
            self._loop.run()
            self._say_farewell()
        finally:
            self._console.when_room(lambda: None)
            self._agents.close()
        assert self._outcome is not None
        return self._outcome

    def _say_farewell(self) -> None:
        """Tell the agents, some of which somebody started on their own node, how it ended."""
        assert self._outcome is not None
        words = farewell(self._plan.run_id, self._outcome)
        self._agents.order(Farewell(self._outcome.exit_code, words))

    def _install_handlers(self) -> None:
        """Before the first start, so that no signal finds ranks without somebody to stop them."""
        self._loop.on_stop_signals(self._interrupted)
        self._loop.on_signal(FORWARDED_SIGNALS, lambda signum: self._agents.order(Signal(signum)))

    # Messages

    def _take(self, messages: Iterable[Message]) -> None:
        """Take in what came in one read; output that follows on another of its rank is joined."""
        written: dict[int, list[bytes]] = {}
        for message in messages:
            if isinstance(message, OutputEvent):
                written.setdefault(message.rank, []).append(message.data)
            elif isinstance(message, Routed):
                self._routed(message)
            elif isinstance(message, Asked):
                self._asked(message)
            elif not isinstance(message, (Start, Stop, Signal, FindRoute, Ping, Farewell)):
                self._take_output(written)
                self._note(message)
                self._happen(message)
        self._take_output(written)
        if self._console.full:
            self._agents.pause()

    def _take_output(self, written: dict[int, list[bytes]]) -> None:
        for rank, pieces in written.items():
            self._output.take(rank, b"".join(pieces))
        written.clear()

    # Events

    def _note(self, event: Happening) -> None:
        """Remember an event: pids for the report, everything but output in events.jsonl."""
        if isinstance(event, Started):
            self.pids[event.rank] = event.pid
        elif isinstance(event, Closed):
            self._output.end(event.rank)
        if isinstance(event, (Started, Exited, Refused, AgentLost, Interrupted, Asked)):
            fields = {"event": type(event).__name__, "at": time.time(), **vars(event)}
            if isinstance(event, Exited):
                fields["exit"] = vars(event.exit)
            self._output.event(fields)

    def _lose(self, node_rank: int, reason: str) -> None:
        lost = AgentLost(node_rank, reason)
        self._note(lost)
        self._happen(lost)

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

    def _asked(self, event: Asked) -> None:
        self._note(event)
        before, left = self._state.phase, describe_ranks(self._state.open)
        self._happen(event)
        if self._state.phase is not before:
            name = signal.Signals(event.signum).name
            doing = "killing" if self._state.phase is lifecycle.Phase.KILLING else "stopping"
            self._console.say(f"node {event.node_rank} got {name}: {doing} {left}")

    def _happen(self, event: Happening) -> None:
        self._state, actions = lifecycle.step(self._state, event, time.monotonic())
        self._perform(actions)

    # Actions

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, FindRendezvous):
                self._find_rendezvous()
            elif isinstance(action, StartWorkers):
                self._start_workers(action.address)
            elif isinstance(action, StopWorkers):
                self._announce_stop(action)
                self._agents.order(Stop(action.grace))
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

    # Rendezvous

    def _find_rendezvous(self) -> None:
        """Find out where rank 0 can be met.

        Unless the user said where, that is the address of node 0 on the way to its peers, as
        its own kernel chooses it.
        """
        if self._plan.rendezvous.address:
            self._happen(RendezvousFound(self._plan.rendezvous.address))
            return
        peer = self._agents.ready(1).address or self._agents.ready(0).peer
        if peer:
            self._agents.order_one(0, FindRoute(peer))
        else:  # neither was reached over a network
            self._happen(RendezvousFound(_LOOPBACK))

    def _routed(self, answer: Routed) -> None:
        if answer.address:
            self._happen(RendezvousFound(answer.address))
        else:
            self._lose(answer.node_rank, "node 0 knows no way to node 1; give --master-addr")

    def _start_workers(self, address: str) -> None:
        port = self._plan.rendezvous.port or self._agents.ready(0).port
        plan = self._plan.meeting_at(Rendezvous(address, port))
        count = len(plan.topology.nodes)
        if count > 1:
            self._console.say(f"all {count} nodes are ready; meeting at {address}:{port}")
        for node_plan in plan.node_plans:
            self._agents.order_one(node_plan.node_rank, Start(node_plan, self._state.grace))
