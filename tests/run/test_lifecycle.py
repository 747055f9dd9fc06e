"""Histories of runs: what happened, what is done about it, and the exit code at the end."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zlaunch.run.actions import (
    Action,
    CheckNodes,
    Finish,
    JudgeFailure,
    SetDeadline,
    StartWorkers,
    StopWorkers,
)
from zlaunch.run.lifecycle import step
from zlaunch.run.messages import Closed, Exit, Exited, Output, Ready, Refused, Started, Told
from zlaunch.run.state import (
    AgentLost,
    DeadlinePassed,
    FailureJudged,
    Happening,
    Interrupted,
    LimitRanOut,
    NodesFit,
    NodesUnfit,
    Phase,
    Rules,
    RunState,
)

NODES = {0: frozenset({0, 1}), 1: frozenset({2, 3})}
GRACE = 30.0
RULES = Rules(GRACE)
READY = [Ready(0, 100, 29500), Ready(1, 200, 29501), NodesFit("10.0.0.1", 29500)]
INT, TERM, HUP = (Interrupted(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
NODE0_LOST, NODE1_LOST = AgentLost(0, "node 0 gone"), AgentLost(1, "node 1 gone")
NOW = Interrupted(signal.SIGTERM, at_once=True)
LATER = DeadlinePassed()
HANGS = LimitRanOut("no progress")

Timed = Happening | tuple[float, Happening]


def end(rank: int, code: int | None = 0, sig: int | None = None) -> Exited:
    return Exited(rank, Exit(None if sig else code, sig), 5.0)


def killed(rank: int, sig: int = signal.SIGKILL) -> Exited:
    return end(rank, sig=sig)


def closed(*ranks: int) -> list[Happening]:
    return [Closed(rank) for rank in ranks]


class History:
    """Lets things happen one second apart, or at the time given with them."""

    def __init__(self, events: Sequence[Timed] = (), rules: Rules = RULES) -> None:
        self.state = RunState.begin(NODES, rules)
        self.now = 1000.0
        self.actions: list[Action] = []
        for event in events:
            self.happen(event)

    def happen(self, event: Timed) -> tuple[Action, ...]:
        """Let it happen; a first failure is found to be the rank's own, a moment later."""
        after, what = event if isinstance(event, tuple) else (1.0, event)
        actions = self.step(what, after)
        if self.is_in(Phase.FAILING):
            assert actions == (SetDeadline(self.now + 0.1),)
            (judge,) = self.step(LATER, 0.1)
            assert isinstance(judge, JudgeFailure)
            actions = self.step(FailureJudged(True), 0.0)
        return actions

    def step(self, event: Happening, after: float) -> tuple[Action, ...]:
        self.now += after
        self.state, actions = step(self.state, event, self.now)
        self.actions += [action for action in actions if not isinstance(action, JudgeFailure)]
        return actions

    def is_in(self, phase: Phase) -> bool:
        return self.state.phase is phase

    @property
    def stops(self) -> list[float]:
        return [action.grace for action in self.actions if isinstance(action, StopWorkers)]

    @property
    def finishes(self) -> list[Finish]:
        return [action for action in self.actions if isinstance(action, Finish)]

    @property
    def exit_code(self) -> int:
        assert self.is_in(Phase.DONE)
        (finish,) = self.finishes
        assert finish.outcome == self.state.outcome
        return finish.outcome.exit_code


# events after both agents are ready -> graces of the stops ordered, exit code
RUNNING: dict[str, tuple[list[Timed], list[float], int]] = {
    "all clean": ([*map(end, range(4)), *closed(0, 1, 2, 3)], [], 0),
    "output and starts change nothing": (
        [Started(0, 7, 1.0), Output(0, b"x"), *map(end, range(4)), *closed(3, 1, 0, 2)],
        [],
        0,
    ),
    "output after the end of the main process": (
        [end(0), Output(0, b"late"), *closed(0), *map(end, [1, 2, 3]), *closed(1, 2, 3)],
        [],
        0,
    ),
    "a rank fails, the others obey": (
        [end(2, 7), *closed(2), *(killed(r, 15) for r in (0, 1, 3)), *closed(0, 1, 3)],
        [GRACE],
        7,
    ),
    "a rank fails after others were done": (
        [end(0), *closed(0), end(1), *closed(1), end(3, 1), end(2), *closed(2, 3)],
        [GRACE],
        1,
    ),
    "the last rank fails": (
        [*(e for r in range(3) for e in (end(r), Closed(r))), end(3, 9), *closed(3)],
        [GRACE],
        9,
    ),
    "killed by a signal": ([killed(1), *closed(1, 0, 2, 3)], [GRACE], 137),
    "a crash": ([killed(1, signal.SIGSEGV), *closed(1, 0, 2, 3)], [GRACE], 139),
    "two fail: the first counts and others are told once": (
        [end(3, 4), end(0, 5), killed(1), *closed(0, 1, 2, 3)],
        [GRACE],
        4,
    ),
    "failed, and the rest must be killed": (
        [end(3, 4), *closed(3), LATER, killed(0), killed(1), killed(2), *closed(0, 1, 2)],
        [GRACE, 0.0],
        4,
    ),
    "failed, then Ctrl-C: at once, and the failure is the reason": (
        [end(3, 4), *closed(3), INT, killed(0), killed(1), killed(2), *closed(0, 1, 2)],
        [GRACE, 0.0],
        4,
    ),
    "not to be killed": ([INT, LATER, killed(0), *closed(0), LATER], [GRACE, 0.0], 130),
    "agent lost, the others obey": (
        [NODE1_LOST, killed(0, 15), killed(1, 15), *closed(0, 1)],
        [GRACE],
        125,
    ),
    "agent lost, and then a scheduler takes the job back": (
        [NODE1_LOST, TERM, killed(0, 15), killed(1, 15), *closed(0, 1)],
        [GRACE],
        125,
    ),
    "agent lost, and TERM twice": (
        [NODE1_LOST, TERM, TERM, killed(0), killed(1), *closed(0, 1)],
        [GRACE, 0.0],
        143,
    ),
    "agent lost, the others end well all the same": (
        [NODE1_LOST, end(0), end(1), *closed(0, 1)],
        [GRACE],
        125,
    ),
    "both agents lost": ([NODE1_LOST, NODE0_LOST], [GRACE], 125),
    "agent lost after a failure": (
        [end(2, 6), NODE1_LOST, killed(0), killed(1), *closed(0, 1)],
        [GRACE],
        6,
    ),
    "agent lost while stopping": ([INT, NODE0_LOST, *closed(2, 3)], [GRACE], 130),
    "the last agent lost when only its own ranks were left": (
        [end(0), end(1), *closed(0, 1), NODE1_LOST],
        [],
        125,
    ),
    "refused": ([Refused(2, "no such file"), *closed(0, 1, 3)], [GRACE], 125),
    "all refused": ([Refused(rank, "no such file") for rank in range(4)], [GRACE], 125),
    "refused after a failure": ([end(0, 3), Refused(2, "no"), *closed(0, 1, 3)], [GRACE], 3),
    "INT": ([INT, *(killed(r, 15) for r in range(4)), *closed(0, 1, 2, 3)], [GRACE], 130),
    "INT, and all end well": ([INT, *map(end, range(4)), *closed(0, 1, 2, 3)], [GRACE], 130),
    "stop --now": ([NOW, *closed(0, 1, 2, 3)], [0.0], 143),
    "stop, and --now at once": ([TERM, (0.1, NOW), *closed(0, 1, 2, 3)], [GRACE, 0.0], 143),
    "a node was told, and --now": ([Told(1, 15), NOW, *closed(*range(4))], [GRACE, 0.0], 143),
    "stop --now twice": ([NOW, NOW, *closed(0, 1, 2, 3)], [0.0], 143),
    "TERM": ([TERM, *closed(0, 1, 2, 3)], [GRACE], 143),
    "HUP": ([HUP, *closed(0, 1, 2, 3)], [GRACE], 129),
    "a failure after INT": ([INT, end(0, 1), *closed(0, 1, 2, 3)], [GRACE], 130),
    "INT twice": ([INT, INT, *map(killed, range(4)), *closed(0, 1, 2, 3)], [GRACE, 0.0], 130),
    "INT twice within 0.3 s": ([INT, (0.2, INT), *closed(0, 1, 2, 3)], [GRACE], 130),
    "INT, TERM within 0.3 s": ([INT, (0.1, TERM), *closed(0, 1, 2, 3)], [GRACE], 130),
    "INT, INT at once, INT later": (
        [INT, (0.1, INT), (0.3, INT), *closed(0, 1, 2, 3)],
        [GRACE, 0.0],
        130,
    ),
    "INT, then TERM: the first names the code": (
        [INT, TERM, *closed(0, 1, 2, 3)],
        [GRACE, 0.0],
        130,
    ),
    "a node is told to stop, and all end well": (
        [Told(1, 15), *map(end, range(4)), *closed(0, 1, 2, 3)],
        [GRACE],
        143,
    ),
    "every node is told, and so are we, at their own pace": (
        [Told(1, 15), Told(0, 15), TERM, *(killed(r, 15) for r in range(4)), *closed(*range(4))],
        [GRACE],
        143,
    ),
    "a node is told, then we, twice": (
        [Told(1, 15), INT, INT, *map(killed, range(4)), *closed(0, 1, 2, 3)],
        [GRACE, 0.0],
        143,
    ),
    "a node is told twice": (
        [Told(1, 2), (0.1, Told(1, 2)), Told(1, 2), *map(killed, range(4)), *closed(*range(4))],
        [GRACE, 0.0],
        130,
    ),
    "we are told, and then the nodes": ([TERM, Told(0, 15), *closed(*range(4))], [GRACE], 143),
    "a node is told after a failure": (
        [end(2, 7), Told(0, 15), *closed(*range(4))],
        [GRACE],
        7,
    ),
    "a limit runs out": (
        [HANGS, *(killed(r, 15) for r in range(4)), *closed(*range(4))],
        [GRACE],
        124,
    ),
    "a limit runs out, and all end well": (
        [HANGS, HANGS, *map(end, range(4)), *closed(*range(4))],
        [GRACE],
        124,
    ),
    "a limit runs out, then a failure": ([HANGS, end(1, 3), *closed(*range(4))], [GRACE], 124),
    "a limit runs out, then INT": ([HANGS, INT, *closed(*range(4))], [GRACE, 0.0], 124),
    "INT, then a limit runs out": ([INT, HANGS, *closed(*range(4))], [GRACE], 130),
    "a failure, then a limit runs out": ([end(1, 3), HANGS, *closed(*range(4))], [GRACE], 3),
    "INT three times": ([INT, INT, INT, INT, *closed(0, 1, 2, 3)], [GRACE, 0.0], 130),
}


@pytest.mark.parametrize(("events", "stops", "exit_code"), RUNNING.values(), ids=RUNNING)
def test_history(events: list[Timed], stops: list[float], exit_code: int) -> None:
    history = History([*READY, *events])
    assert history.actions[:2] == [CheckNodes(), StartWorkers("10.0.0.1", 29500)]
    assert history.stops == stops
    assert history.exit_code == exit_code


# events -> exit code; no rank is started, so there is nobody to be told to stop
STARTING: dict[str, tuple[list[Timed], int]] = {
    "agent lost, then the other ready": ([NODE0_LOST, READY[1], READY[2]], 125),
    "agent lost, then the other ready and unfit": (
        [NODE0_LOST, READY[1], NodesUnfit("h1: no script")],
        125,
    ),
    "both agents lost": ([NODE0_LOST, NODE1_LOST], 125),
    "agent lost while the other is ready": ([READY[0], NODE1_LOST, READY[2]], 125),
    "ready agent lost, then the other ready": (
        [READY[0], NODE0_LOST, READY[1], READY[2]],
        125,
    ),
    "agent lost while the other is ready, and that one while it is looked at": (
        [READY[0], NODE1_LOST, NODE0_LOST],
        125,
    ),
    "agent lost while the other is ready, then INT": ([READY[0], NODE1_LOST, INT], 130),
    "agent lost, then INT": ([NODE0_LOST, INT], 130),
    "INT": ([INT], 130),
    "stop --now with one ready": ([READY[1], NOW], 143),
    "TERM with one ready": ([READY[1], TERM], 143),
    "a node is told to stop": ([READY[1], Told(1, 2)], 130),
}


@pytest.mark.parametrize(("events", "exit_code"), STARTING.values(), ids=STARTING)
def test_history_before_the_start(events: list[Timed], exit_code: int) -> None:
    history = History(events)
    kinds = [type(action) for action in history.actions if not isinstance(action, SetDeadline)]
    assert kinds in ([Finish], [CheckNodes, Finish])
    assert history.exit_code == exit_code


def test_once_a_node_is_lost_the_others_are_waited_for_so_long_only() -> None:
    history = History([NODE0_LOST])
    (deadline,) = history.actions
    assert deadline == SetDeadline(history.now + history.state.rules.patience)
    history.happen(DeadlinePassed())
    assert history.is_in(Phase.DONE)
    assert history.state.outcome.trouble == NODE0_LOST.reason
    assert history.exit_code == 125


def test_what_is_wrong_with_the_others_is_told_beside_a_host_that_is_not_reached() -> None:
    history = History([READY[0], NODE1_LOST, NodesUnfit("h0: no script")])
    assert history.state.outcome.trouble == f"{NODE1_LOST.reason}\nh0: no script"


def test_each_host_that_cannot_be_reached_is_named() -> None:
    history = History([NODE0_LOST])
    assert [type(action) for action in history.actions] == [SetDeadline]
    history.happen(NODE1_LOST)
    assert history.state.outcome.trouble == f"{NODE0_LOST.reason}\n{NODE1_LOST.reason}"


def test_workers_start_when_all_agents_are_ready() -> None:
    history = History([READY[1]])
    assert history.actions == []
    assert history.is_in(Phase.STARTING)
    history.happen(READY[0])
    assert history.actions == [CheckNodes()]
    assert history.is_in(Phase.STARTING)
    assert history.happen(READY[2]) == (StartWorkers("10.0.0.1", 29500),)
    assert history.is_in(Phase.RUNNING)


def test_nodes_that_are_not_fit_end_the_run_as_wrong_input() -> None:
    history = History([*READY[:2], NodesUnfit("h1: script a.py is missing")])
    assert [type(action) for action in history.actions] == [CheckNodes, Finish]
    assert history.exit_code == 2
    assert history.state.outcome.trouble == "h1: script a.py is missing"
    assert history.happen(READY[2]) == ()


def test_an_agent_lost_while_nodes_are_looked_at() -> None:
    history = History([*READY[:2], NODE1_LOST])
    assert [type(action) for action in history.actions] == [CheckNodes, Finish]
    assert history.exit_code == 125
    assert history.happen(NodesUnfit("too late")) == ()


def test_no_worker_starts_after_a_stop() -> None:
    """The rendezvous may be found when the run has been stopped already."""
    history = History([*READY[:2], INT])
    assert [type(action) for action in history.actions] == [CheckNodes, Finish]
    assert history.happen(READY[2]) == ()


def test_a_run_is_over_only_once_all_output_is_in() -> None:
    history = History([*READY, *map(end, range(4)), *closed(0, 1, 2)])
    assert history.is_in(Phase.RUNNING)
    assert history.happen(Closed(3)) == (Finish(history.state.outcome),)


def test_the_deadline_ladder() -> None:
    """The agents kill by themselves after the grace, so the launcher waits somewhat longer."""
    history = History(READY)
    stop, deadline = history.happen(INT)
    assert isinstance(stop, StopWorkers)
    assert isinstance(deadline, SetDeadline)
    assert history.now + GRACE < deadline.at < history.now + GRACE + 30
    assert history.is_in(Phase.STOPPING)
    kill, deadline = history.happen((GRACE + 5, LATER))
    assert isinstance(kill, StopWorkers)
    assert kill.grace == 0
    assert isinstance(deadline, SetDeadline)
    assert history.now < deadline.at < history.now + 30
    assert history.is_in(Phase.KILLING)
    history.happen(Closed(1))
    history.happen((30, LATER))
    (finish,) = history.finishes
    assert finish.outcome.trouble == "ranks 0, 2-3 could not be killed"
    assert history.exit_code == 130


def failing(*events: Timed) -> History:
    """Rank 2 has failed just now."""
    history = History([*READY, *events])
    assert history.step(end(2, 7), 1.0) == (SetDeadline(history.now + 0.1),)
    return history


def test_others_have_a_moment_to_say_why_a_rank_failed() -> None:
    history = failing()
    assert history.step(LATER, 0.1) == (JudgeFailure(2),)
    stop, _ = history.step(FailureJudged(True), 0.0)
    assert stop == StopWorkers(GRACE, "rank 2 failed")


def test_and_more_of_it_where_the_rank_lost_another_one() -> None:
    history = failing()
    failed_at = history.now
    history.step(LATER, 0.1)
    assert history.step(FailureJudged(False), 0.0) == (SetDeadline(failed_at + 0.5),)
    assert history.step(end(0, 1), 0.1) == ()
    stop, _ = history.step(LATER, 0.3)
    assert stop == StopWorkers(GRACE, "rank 2 failed")
    for event in [killed(1, 15), killed(3, 15), *closed(0, 1, 2, 3)]:
        history.step(event, 0.0)
    assert history.exit_code == 7


def test_nobody_is_stopped_where_all_end_in_that_moment() -> None:
    history = failing()
    for event in [end(0, 1), end(1), end(3), *closed(0, 1, 2, 3)]:
        history.step(event, 0.01)
    assert history.stops == []
    assert history.exit_code == 7
    assert history.step(FailureJudged(True), 0.0) == ()


@pytest.mark.parametrize(
    ("event", "stops"), [(INT, [GRACE]), (Told(0, 15), [GRACE]), (NODE1_LOST, [GRACE])]
)
def test_what_ends_that_moment(event: Happening, stops: list[float]) -> None:
    history = failing()
    history.step(event, 0.05)
    assert history.stops == stops
    for one in closed(0, 1, 2, 3):
        history.step(one, 0.0)
    assert history.exit_code == 7


def test_what_the_outcome_tells() -> None:
    history = History([*READY, end(2, 7), killed(0, 15), *closed(0, 1, 2, 3)])
    outcome = history.state.outcome
    assert outcome.first_failure == end(2, 7)
    assert outcome.exits == {2: end(2, 7), 0: killed(0, 15)}
    assert (outcome.stopped_by, outcome.trouble) == (None, None)
    assert History([*READY, NODE1_LOST]).state.outcome.trouble == "node 1 gone"
    refused = History([*READY, Refused(2, "x: No such file"), *closed(0, 1, 3)])
    assert refused.state.outcome.trouble == "rank 2 could not be started: x: No such file"


anything = st.one_of(
    st.sampled_from([*READY, NODE0_LOST, NODE1_LOST, INT, TERM, HUP, NOW, LATER, LATER, HANGS]),
    st.builds(end, st.integers(0, 3), st.sampled_from([0, 0, 0, 1, 255])),
    st.builds(killed, st.integers(0, 3), st.sampled_from([6, 9, 15])),
    st.builds(Closed, st.integers(0, 3)),
    st.builds(Refused, st.integers(0, 3), st.text(max_size=3)),
    st.builds(Output, st.integers(0, 3), st.binary(max_size=3)),
    st.builds(Started, st.integers(0, 3), st.just(1), st.just(1.0)),
    st.builds(Told, st.sampled_from([0, 1]), st.sampled_from([2, 15])),
)


def _may_exit(rank: int, state: RunState) -> bool:
    """Once, and not before it was started."""
    return state.phase is not Phase.STARTING and rank not in state.exits


happenings = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 1.0, 60.0]), anything), max_size=25)


@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(happenings)
def test_any_history_ends_once_and_never_with_0_when_something_was_amiss(
    events: list[tuple[float, Happening]],
) -> None:
    history = History()
    amiss = False
    for timed in [*events, *READY, *closed(0, 1, 2, 3)]:
        event = timed[1] if isinstance(timed, tuple) else timed
        deadline_set = any(isinstance(action, SetDeadline) for action in history.actions)
        if isinstance(event, DeadlinePassed) and not deadline_set:
            continue  # nobody asked for it, so it cannot happen
        if isinstance(event, Exited) and not _may_exit(event.rank, history.state):
            continue
        done = history.is_in(Phase.DONE)
        before = history.state
        actions = history.happen(timed)
        if done:
            assert history.state is before
            assert actions == ()
        else:
            failed = isinstance(event, Exited) and event.exit.status != 0
            amiss |= failed or isinstance(event, (AgentLost, Told, Interrupted, Refused))
            amiss |= event == HANGS and before.phase in (Phase.STARTING, Phase.RUNNING)
        assert all(a.at > history.now for a in actions if isinstance(a, SetDeadline))
    assert history.actions.count(StartWorkers("10.0.0.1", 29500)) <= 1
    assert sorted(history.stops, reverse=True) == history.stops
    assert len(history.stops) == len(set(history.stops))
    assert (history.exit_code != 0) == amiss
