"""The launcher's loop: reads agents' events, asks the lifecycle, performs what it says."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial

from zlaunch.backends.base import Backend
from zlaunch.launcher.agents import Agents, Patience
from zlaunch.launcher.output import Output
from zlaunch.launcher.preflight import ANSWERS, Asked, Fitness, Preflight, describe
from zlaunch.launcher.report import describe_ranks, farewell
from zlaunch.run import lifecycle
from zlaunch.run.actions import Action, CheckNodes, Finish, SetDeadline, StartWorkers, StopWorkers
from zlaunch.run.lifecycle import (
    AgentLost,
    DeadlinePassed,
    Happening,
    Interrupted,
    NodesFit,
    NodesUnfit,
    RunState,
)
from zlaunch.run.messages import (
    ORDERS,
    Closed,
    Exited,
    Farewell,
    Message,
    Refused,
    Signal,
    Start,
    Started,
    Stop,
    Told,
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
        asked: Asked | None = None,
        allowed: Collection[str] = (),
        on_start: Callable[[], None] = lambda: None,
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`asked` is what nodes are looked at for; `allowed` holds codes of what may be wrong.

        `on_start` is called once the first worker is about to start, `on_trouble` with why a
        node was lost before that.
        """
        self._on_trouble = on_trouble
        self._on_start = on_start
        self._plan = plan
        self._allowed = allowed
        self._loop = loop
        self._console = console
        self._output = output
        self._agents = Agents(loop, backend, patience, self._take, self._lose)
        self._preflight = Preflight(self._agents, plan, asked, self._judge)
        self._deadline: Timer | None = None
        self._outcome: Outcome | None = None
        self.pids: dict[int, int] = {}
        nodes = {
            node.rank: frozenset(worker.rank for worker in plan.topology.on_node(node.rank))
            for node in plan.topology.nodes
        }
        self._state = RunState.begin(nodes, grace, patience.connect)

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
        self._loop.on_stop_signals(self.interrupt)
        self._loop.on_signal(FORWARDED_SIGNALS, lambda signum: self._agents.order(Signal(signum)))

    # Messages

    def _take(self, messages: Iterable[Message]) -> None:
        """Take in what came in one read; output that follows on another of its rank is joined."""
        written: dict[int, list[bytes]] = {}
        for message in messages:
            if isinstance(message, OutputEvent):
                written.setdefault(message.rank, []).append(message.data)
            elif isinstance(message, ANSWERS):
                self._preflight.take(message)
            elif isinstance(message, Told):
                self._told(message)
            elif not isinstance(message, ORDERS):
                if isinstance(message, Refused):
                    message = self._with_host(message)  # noqa: PLW2901
                self._take_output(written)
                self._note(message)
                self._happen(message)
        self._take_output(written)
        if self._console.full:
            self._agents.pause()

    def _with_host(self, refused: Refused) -> Refused:
        """Name the host, where there are several."""
        topology = self._plan.topology
        if len(topology.nodes) == 1:
            return refused
        host = topology.nodes[topology.workers[refused.rank].node_rank].host
        return Refused(refused.rank, f"{host}: {refused.reason}")

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
        if isinstance(event, (Started, Exited, Refused, AgentLost, Interrupted, Told)):
            fields = {"event": type(event).__name__, "at": time.time(), **vars(event)}
            if isinstance(event, Exited):
                fields["exit"] = vars(event.exit)
            self._output.event(fields)

    def _lose(self, node_rank: int, reason: str) -> None:
        lost = AgentLost(node_rank, reason)
        self._note(lost)
        if self._state.phase is lifecycle.Phase.STARTING:
            self._on_trouble(reason)  # at once: others may take long to be reached
        self._happen(lost)
        self._preflight.lose(node_rank)

    def interrupt(self, signum: int) -> None:
        """Stop the run as this signal does; the second time at once."""
        self._note(Interrupted(signum))
        before = self._state.phase
        self._happen(Interrupted(signum))
        name = signal.Signals(signum).name
        left = describe_ranks(self._state.open)
        if self._state.phase is lifecycle.Phase.STOPPING and self._state.phase is not before:
            self._console.say(f"{name}: stopping {left}; again to kill at once")
        elif self._state.phase is lifecycle.Phase.KILLING and self._state.phase is not before:
            self._console.say(f"{name}: killing {left}")

    def _told(self, event: Told) -> None:
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
            if isinstance(action, CheckNodes):
                there = [
                    node for node, ranks in self._state.nodes.items() if ranks & self._state.open
                ]
                self._preflight.begin(there)
            elif isinstance(action, StartWorkers):
                self._start_workers(Rendezvous(action.address, action.port))
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

    # Before and at the start

    def _judge(self, fitness: Fitness) -> None:
        """Go on where all nodes are fit, as far as the user allows no less."""
        if self._outcome is not None:
            return
        wrong = [f for f in fitness.findings if not f.warning and f.code not in self._allowed]
        if wrong:
            self._happen(NodesUnfit(describe(wrong)))
            return
        for finding in fitness.findings:
            self._console.say(f"{finding.host}: {finding.text}", "warning")
        self._happen(NodesFit(fitness.rendezvous.address, fitness.rendezvous.port))

    def _start_workers(self, rendezvous: Rendezvous) -> None:
        self._on_start()
        plan = self._plan.meeting_at(rendezvous)
        count = len(plan.topology.nodes)
        if count > 1:
            where = f"{rendezvous.address}:{rendezvous.port}"
            self._console.say(f"all {count} nodes are ready; meeting at {where}")
        for node_plan in plan.node_plans:
            self._agents.order_one(node_plan.node_rank, Start(node_plan, self._state.grace))
