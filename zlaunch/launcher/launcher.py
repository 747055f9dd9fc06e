"""The launcher's loop: reads agents' events, asks the lifecycle, performs what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from zlaunch.backends.base import Backend
from zlaunch.launcher.admission import Admission
from zlaunch.launcher.agents import Agents, Patience
from zlaunch.launcher.forwarding import FORWARDED, Forwarding
from zlaunch.launcher.hooks import Hooks
from zlaunch.launcher.inbox import Inbox
from zlaunch.launcher.last_look import let_go
from zlaunch.launcher.leasing import Wanted
from zlaunch.launcher.output import Output
from zlaunch.launcher.preflight import Asked
from zlaunch.launcher.report import farewell, with_host
from zlaunch.launcher.stopping import Stopping
from zlaunch.launcher.typed import typed
from zlaunch.launcher.view import View
from zlaunch.launcher.whereabouts import StackOptions, Whereabouts
from zlaunch.run import lifecycle
from zlaunch.run.actions import (
    Action,
    CheckNodes,
    Finish,
    JudgeFailure,
    Mention,
    Rest,
    SetDeadline,
    StartWorkers,
    StopWorkers,
)
from zlaunch.run.messages import (
    Closed,
    Event,
    Exited,
    Farewell,
    Message,
    Note,
    Refused,
    Stacks,
    Start,
    Started,
    Stop,
    Told,
    Used,
)
from zlaunch.run.outcome import Outcome
from zlaunch.run.state import (
    AgentLost,
    AttemptJudged,
    DeadlinePassed,
    FailureJudged,
    Happening,
    Interrupted,
    LimitRanOut,
    Phase,
    Rules,
    RunState,
)
from zlaunch.spec.environment import Rendezvous
from zlaunch.spec.plan import Plan
from zlaunch.spec.ranks import describe_ranks
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop, Timer


class Launcher:
    """Runs one plan from the first agent to the last word. Used once."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        loop: Loop,
        console: Console,
        output: Output,
        rules: Rules,
        patience: Patience,
        asked: Asked | None = None,
        allowed: Collection[str] = (),
        hooks: Hooks | None = None,
        stacks: StackOptions = StackOptions(),  # noqa: B008  # frozen
        forwarded: Collection[int] = FORWARDED,
        wanted: Wanted | None = None,
        first_attempt: int = 0,
    ) -> None:
        """`asked` is what nodes are looked at for; `allowed` holds codes of what may be wrong.

        `wanted` are leases, None for none. The signals `forwarded` go to the ranks. Attempts are
        counted from `first_attempt` on.
        """
        self._hooks = hooks or Hooks()
        self._plan = plan
        self._backend = backend
        self._loop = loop
        self._console = console
        self._output = output
        self._agents = Agents(
            loop, backend, patience, self._take, self._lose, lambda w: console.say(w, "warning")
        )
        self.forwarding = Forwarding(
            forwarded, self._agents, console.say, lambda: self._state.has_ranks
        )
        self.stopping = Stopping(self._hear, lambda: self._state, console.say)
        self._admission = Admission(
            loop, self._agents, console, plan, asked, allowed, wanted, self._hooks, self._happen
        )
        self._typed = typed(plan, loop, console, self._agents.order_one)
        self._handler = stacks.handler
        self.whereabouts = Whereabouts(
            loop, self._agents, console, plan, stacks, lambda what: self._happen(LimitRanOut(what))
        )
        self.view = View(loop, self._agents, plan, output.metrics.add, self._head)
        output.metrics.on_metric = self.view.metric
        takers: dict[type, Callable[[Any], None]] = {
            **self._admission.takers,
            Told: self._told,
            Note: self._take_note,
            Stacks: self.whereabouts.take,
            Used: self.view.sampling.take,
        }
        self._inbox = Inbox(self._take_output, takers, self._take_event)
        self._deadline: Timer | None = None
        self._outcome: Outcome | None = None
        self.pids: dict[int, int] = {}
        self._state = RunState.begin(plan.topology.ranks_by_node, rules, first_attempt)
        self._performers: Mapping[type, Callable[[Any], None]] = {
            CheckNodes: self._check_nodes,
            StartWorkers: self._start_workers,
            JudgeFailure: self._judge_failure,
            StopWorkers: self._stop_workers,
            Mention: self._mention,
            Rest: self._rest,
            SetDeadline: self._set_deadline,
            Finish: self._finish,
        }

    def run(self) -> Outcome:
        """Start all ranks, see them through, and return how it ended."""
        self._install_handlers()
        self._console.when_room(self._agents.resume)
        try:
            self._agents.reach(self._plan.topology.nodes)
            self._loop.run()
            self._say_farewell()
        finally:
            if self._typed is not None:
                self._typed.close()
            self._console.when_room(lambda: None)
            let_go(self._agents, self._backend, self._plan, started=bool(self.pids))
        assert self._outcome is not None
        return self._outcome

    def _say_farewell(self) -> None:
        """Tell the agents, some of which somebody started on their own node, how it ended."""
        assert self._outcome is not None
        words = farewell(self._plan.run_id, self._outcome)
        self._agents.order(Farewell(self._outcome.exit_code, words))

    def _install_handlers(self) -> None:
        """Before the first start, so that no signal finds ranks without somebody to stop them."""
        self._loop.on_stop_signals(self.stopping.interrupt)
        self.forwarding.install(self._loop)

    # Messages

    def _take(self, messages: Iterable[Message]) -> None:
        self._inbox.take(messages)
        if self._console.full:
            self._agents.pause()

    def _take_output(self, rank: int, data: bytes) -> None:
        self._output.take(rank, data)
        self.whereabouts.wrote(rank, data)
        self.view.wrote(rank, data)

    def _take_event(self, event: Event) -> None:
        if isinstance(event, Refused):
            event = with_host(event, self._plan.topology)
        self._hear(event)

    def _take_note(self, note: Note) -> None:
        nodes = self._plan.topology.nodes
        host = f"{nodes[note.node_rank].host}: " if nodes[1:] else ""
        self._console.say(host + note.text, note.level)

    # Events

    def _note(self, event: Happening) -> None:
        """Remember an event: pids for the report, everything but output in events.jsonl."""
        if self._typed is not None:
            self._typed.note(event)
        if isinstance(event, Started):
            self._note_started(event)
        elif isinstance(event, Exited):
            self.whereabouts.ended(event.rank, event.exit)
        elif isinstance(event, Closed):
            self._output.end(event.rank)
        if isinstance(event, (Started, Exited, Refused, AgentLost, Interrupted, Told)):
            fields = {"event": type(event).__name__, "at": time.time(), **vars(event)}
            if isinstance(event, Exited):
                fields["exit"] = vars(event.exit)
                if event.exit.status:
                    self._hooks.on_failure()
            self._output.event(fields)
            self.view.event(fields)

    def _note_started(self, event: Started) -> None:
        self.whereabouts.started(event.rank)
        self.view.started(event)
        known, self.pids[event.rank] = len(self.pids), event.pid
        if known < len(self.pids) == self._plan.topology.world_size:
            self._hooks.on_running()

    def _lose(self, node_rank: int, reason: str) -> None:
        lost = AgentLost(node_rank, reason)
        self._note(lost)
        if self._state.phase is Phase.STARTING:
            self._hooks.on_trouble(reason)  # at once: others may take long to be reached
        self._happen(lost)
        self._admission.lose(node_rank)

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self._state

    def _head(self) -> dict[str, Any]:
        """What `zlaunch status` and `zlaunch top` are told of the whole run."""
        return {
            "phase": self._state.phase.value,
            "attempt": self._state.attempt,
            "most_restarts": self._state.rules.restarts.most,
        }

    def _told(self, event: Told) -> None:
        if self.forwarding.told(event):
            self._note(event)
        else:
            self.stopping.told(event)

    def _hear(self, event: Happening) -> None:
        self._note(event)
        self._happen(event)

    def _happen(self, event: Happening) -> None:
        self._state, actions = lifecycle.step(self._state, event, time.monotonic())
        self._perform(actions)

    # Actions

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._performers[type(action)](action)

    def _set_deadline(self, deadline: SetDeadline) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.at(deadline.at, partial(self._happen, DeadlinePassed()))

    def _judge_failure(self, judge: JudgeFailure) -> None:
        own = self._hooks.failed_of_its_own(self._state.outcome, judge.rank)
        self._happen(FailureJudged(own))

    def _stop_workers(self, stop: StopWorkers) -> None:
        self._announce_stop(stop)
        self.whereabouts.stop_watching()
        self._agents.order(Stop(stop.grace))

    def _mention(self, mention: Mention) -> None:
        self._console.say(mention.text)

    def _finish(self, finish: Finish) -> None:
        self._outcome = finish.outcome
        self.view.sampling.end()
        self._loop.stop()

    def _announce_stop(self, stop: StopWorkers) -> None:
        """Say why ranks are being stopped, unless the user asked for it and has been answered."""
        left = self._state.open - self._state.exits.keys()
        if left and self._state.stopped_by is None:
            time_given = f" within {stop.grace:g} s" if stop.grace else ""
            self._console.say(f"{stop.why}; stopping {describe_ranks(left)}{time_given}")

    # Before and at a start

    def _check_nodes(self, check: CheckNodes) -> None:
        state = self._state
        nodes = [node_rank for node_rank, ranks in state.nodes.items() if ranks & state.open]
        self._admission.begin(nodes, check.attempt)

    def _rest(self, rest: Rest) -> None:
        failed = replace(self._state.outcome, first_failure=rest.failed.first_failure)
        self.whereabouts.stop_watching()
        told = self._hooks.on_failed_attempt(failed, self.pids)
        self._happen(AttemptJudged(told.first_failure or rest.failed.first_failure))
        attempt, most = len(self._state.past), self._state.rules.restarts.most
        self._console.say(f"restart {attempt} of {most} in {rest.pause:g} s")

    def _start_workers(self, start: StartWorkers) -> None:
        if start.attempt > self._state.first:
            self._output.begin_attempt(start.attempt)
        else:
            self._hooks.on_start()
        rendezvous = Rendezvous(start.address, start.port)
        plan = self._admission.plan.meeting_at(rendezvous, start.attempt)
        count = len(plan.topology.nodes)
        if count > 1:
            where = f"{rendezvous.address}:{rendezvous.port}"
            self._console.say(f"all {count} nodes are ready; meeting at {where}")
        self.whereabouts.begin()
        self.view.sampling.begin({node.node_rank for node in plan.node_plans}, start.attempt)
        grace, signums = self._state.rules.grace, self.forwarding.signums
        for node_plan in plan.node_plans:
            order = Start(node_plan, grace, self._handler, signums)
            self._agents.order_one(node_plan.node_rank, order)
