"""Restarts: which failures are followed by another attempt, when, and what the run comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from test_lifecycle import (
    GRACE,
    INT,
    LATER,
    NODE1_LOST,
    READY,
    History,
    Timed,
    closed,
    end,
    happenings,
    killed,
)

from zlaunch.run.actions import CheckNodes, Finish, Mention, Rest, SetDeadline, StartWorkers
from zlaunch.run.messages import Exited, Refused, Started, Told
from zlaunch.run.outcome import Attempt
from zlaunch.run.restarts import FINAL, Restarts, pause_before, why_not
from zlaunch.run.state import (
    AttemptJudged,
    DeadlinePassed,
    Happening,
    NodesFit,
    NodesUnfit,
    Phase,
    Rules,
    TimeNearlyOver,
)

TWICE = Rules(GRACE, restarts=Restarts(2, 30.0))
AGAIN = [LATER, NodesFit("10.0.0.1", 29501)]


def fails(after: float = 60.0, code: int = 7) -> list[Timed]:
    """Rank 2 fails that long after the start, and the others are stopped."""
    others = [killed(rank, 15) for rank in (0, 1, 3)]
    return [(after, end(2, code)), *others, *closed(0, 1, 2, 3)]


ENDS_WELL: list[Timed] = [*map(end, range(4)), *closed(0, 1, 2, 3)]


def test_a_failure_is_followed_by_another_attempt_after_a_pause() -> None:
    history = History([*READY, *fails()], TWICE)
    failed = Attempt(0, 60.0, end(2, 7))
    assert history.actions[-2:] == [Rest(failed, 1.0), SetDeadline(history.now + 1.0)]
    assert history.is_in(Phase.PAUSING)
    assert history.happen(LATER) == (CheckNodes(1),)
    again = history.happen(NodesFit("10.0.0.1", 29501))
    assert again == (StartWorkers("10.0.0.1", 29501, 1),)
    for event in ENDS_WELL:
        history.happen(event)
    assert history.exit_code == 0
    assert history.state.outcome.past == (failed,)
    assert history.state.outcome.exits == {rank: end(rank) for rank in range(4)}


def test_the_count_is_of_the_whole_run() -> None:
    history = History([*READY, *fails(code=1)], TWICE)
    for code in (2, 3):
        for event in [*AGAIN, *fails(code=code)]:
            history.happen(event)
    assert history.exit_code == 3
    assert [one.first_failure.exit.code for one in history.state.outcome.past] == [1, 2]
    (why,) = (action.text for action in history.actions if isinstance(action, Mention))
    assert why == "not started again: --max-restarts 2 allows no more"
    pauses = [action.pause for action in history.actions if isinstance(action, Rest)]
    assert pauses == [1.0, 2.0]


def test_attempts_are_counted_from_those_of_an_earlier_start_of_the_job() -> None:
    history = History(rules=TWICE)
    history.state = replace(history.state, first=3, attempts=3)
    for event in READY:
        history.happen(event)
    assert StartWorkers("10.0.0.1", 29500, 3) in history.actions
    for event in [Started(0, 1, 0.0), *fails()]:
        history.happen(event)
    assert (history.state.attempt, history.state.attempts) == (4, 4)
    assert history.happen(LATER) == (CheckNodes(1),)
    assert history.happen(NodesFit("10.0.0.1", 29501)) == (StartWorkers("10.0.0.1", 29501, 4),)
    assert [one.number for one in history.state.past] == [3]


def test_a_run_that_goes_on_elsewhere_is_not_started_again_here() -> None:
    history = History([*READY, TimeNearlyOver(), *fails()], TWICE)
    assert isinstance(history.actions[-1], Finish)
    assert history.exit_code == 7
    paused = History([*READY, *fails(), TimeNearlyOver()], TWICE)
    assert paused.is_in(Phase.DONE)
    assert paused.exit_code != 0


# a failing attempt -> why it is the last one, None where nobody asked for restarts
FINAL_ENDS: dict[str, tuple[list[Timed], str, int]] = {
    "too soon": (fails(4.2), "it failed after 4.2 s, sooner than --healthy-after 30", 7),
    # for a minute their nodes have built operators
    "too soon after a long start": (
        [(60.0, Started(0, 1, 0.0)), *(Started(rank, 1, 0.0) for rank in (1, 2, 3)), *fails(4.2)],
        "it failed after 4.2 s, sooner than --healthy-after 30",
        7,
    ),
    "a final exit code": (fails(code=FINAL), "exit code 93 is final", FINAL),
}


@pytest.mark.parametrize(("events", "reason", "code"), FINAL_ENDS.values(), ids=FINAL_ENDS)
def test_a_failure_that_is_final(events: list[Timed], reason: str, code: int) -> None:
    history = History([*READY, *events], TWICE)
    assert history.actions[-2] == Mention(f"not started again: {reason}")
    assert history.exit_code == code


SILENT_ENDS: dict[str, tuple[list[Timed], int]] = {
    "the user": ([(60.0, INT), *closed(0, 1, 2, 3)], 130),
    "the user, after a failure": ([(60.0, end(2, 7)), INT, *closed(0, 1, 2, 3)], 7),
    "an agent lost": ([(60.0, NODE1_LOST), *closed(0, 1)], 125),
    "an agent lost after a failure": ([(60.0, end(0, 7)), NODE1_LOST, *closed(0, 1)], 7),
    "a rank that cannot be started": ([Refused(2, "no such file"), *closed(0, 1, 3)], 125),
    "all well": (ENDS_WELL, 0),
}


@pytest.mark.parametrize(("events", "code"), SILENT_ENDS.values(), ids=SILENT_ENDS)
def test_what_else_is_never_followed_by_another_attempt(events: list[Timed], code: int) -> None:
    history = History([*READY, *events], TWICE)
    assert isinstance(history.actions[-1], Finish)
    assert not any(isinstance(action, (Rest, Mention)) for action in history.actions)
    assert history.exit_code == code


PAUSED: dict[str, tuple[Happening, int]] = {
    "INT": (INT, 130),
    "a node is told to stop": (Told(1, 15), 143),
    "an agent is lost": (NODE1_LOST, 125),
}


@pytest.mark.parametrize(("event", "code"), PAUSED.values(), ids=PAUSED)
def test_what_ends_a_run_in_its_pause(event: Happening, code: int) -> None:
    history = History([*READY, *fails()], TWICE)
    assert history.happen(event) == (Finish(history.state.outcome),)
    assert history.exit_code == code
    assert [one.first_failure.rank for one in history.state.outcome.past] == [2]


def test_a_node_that_is_unfit_for_another_attempt_is_no_wrong_input() -> None:
    history = History([*READY, *fails(), LATER, NodesUnfit("h1 is gone")], TWICE)
    assert history.exit_code == 125


def test_the_life_of_an_attempt_ends_with_the_failure_not_with_the_grace() -> None:
    slow: list[Timed] = [(3.0, end(2, 7)), (GRACE, killed(0)), *closed(0, 1, 2, 3)]
    history = History([*READY, *slow], TWICE)
    assert history.is_in(Phase.DONE)
    assert "it failed after 3.0 s" in str(history.actions[-2])


def test_pauses_grow_to_a_minute() -> None:
    assert [pause_before(attempt) for attempt in (1, 2, 3, 6, 7, 1000)] == [1, 2, 4, 32, 60, 60]


def test_no_time_is_too_soon_where_the_user_says_0() -> None:
    assert why_not(Restarts(1, 0.0), 0, [end(0, 1)], 0.0) is None


def test_the_final_exit_code_counts_though_another_rank_was_gone_first() -> None:
    lost_it: list[Timed] = [(60.0, end(2, 1)), end(0, FINAL), killed(1, 15), killed(3, 15)]
    history = History([*READY, *lost_it, *closed(0, 1, 2, 3)], TWICE)
    assert history.actions[-2] == Mention(f"not started again: exit code {FINAL} is final")


def test_an_attempt_is_told_of_with_the_rank_that_failed_of_its_own() -> None:
    history = History([*READY, *fails()], TWICE)
    assert history.happen(AttemptJudged(end(3, 9))) == ()
    assert history.state.past == (Attempt(0, 60.0, end(3, 9)),)
    for event in [*AGAIN, *ENDS_WELL]:
        history.happen(event)
    assert history.state.outcome.past == (Attempt(0, 60.0, end(3, 9)),)


@pytest.mark.parametrize("preparing", [[], [LATER]], ids=["in the pause", "while preparing"])
def test_a_stop_between_two_attempts_leaves_the_ends_of_the_one_before(
    preparing: list[Timed],
) -> None:
    history = History([*READY, Started(2, 100, 5.0), *fails(), *preparing, INT], TWICE)
    assert history.is_in(Phase.DONE)
    outcome = history.state.outcome
    assert (outcome.attempts, len(outcome.past)) == (1, 1)
    assert outcome.exits[2] == end(2, 7)
    assert not history.state.has_ranks


# Some ranks end with 0, others go on


def test_an_uneven_end_is_mentioned_once() -> None:
    history = History([*READY, end(1)])
    assert history.actions[-1] == SetDeadline(history.now + 60.0)
    assert history.happen(end(0)) == ()
    (mention,) = history.happen((59.0, LATER))
    words = "ranks 0-1 ended with 0, the first 60 s ago; ranks 2-3 still running"
    assert mention == Mention(words)
    assert history.is_in(Phase.RUNNING)
    for event in [end(2), end(3), *closed(0, 1, 2, 3)]:
        history.happen(event)
    assert history.exit_code == 0


def test_with_a_limit_the_rest_is_stopped() -> None:
    history = History([*READY, end(1)], Rules(GRACE, exit_limit=90.0))
    first, more = history.happen((60.0, LATER))
    assert isinstance(first, Mention)
    assert more == SetDeadline(history.now + 30.0)
    history.happen((30.0, LATER))
    assert history.stops == [GRACE]
    for event in [*(killed(rank, 15) for rank in (0, 2, 3)), *closed(0, 1, 2, 3)]:
        history.happen(event)
    assert history.exit_code == 124
    words = "ranks 0, 2-3 still running 90 s after another rank ended with 0 (--exit-limit)"
    assert history.state.outcome.limit == words


def test_a_short_limit_comes_without_a_mention() -> None:
    history = History([*READY, end(1)], Rules(GRACE, exit_limit=5.0))
    assert history.actions[-1] == SetDeadline(history.now + 5.0)
    history.happen((5.0, LATER))
    assert history.stops == [GRACE]


def test_the_last_rank_that_ends_well_asks_for_nothing() -> None:
    history = History([*READY, *ENDS_WELL])
    deadlines = [action for action in history.actions if isinstance(action, SetDeadline)]
    assert len(deadlines) == 1


@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(happenings)
def test_whatever_happens_there_are_no_more_attempts_than_allowed(
    events: list[tuple[float, Happening]],
) -> None:
    history = History(rules=Rules(1.0, restarts=Restarts(2, 0.0), exit_limit=3.0))
    failures = 0
    for timed in events:
        event = timed[1]
        if isinstance(event, DeadlinePassed) and not any(
            isinstance(action, SetDeadline) for action in history.actions
        ):
            continue  # nobody asked for it, so it cannot happen
        if isinstance(event, Exited) and (
            history.state.phase in (Phase.STARTING, Phase.PAUSING)
            or event.rank in history.state.exits
        ):
            continue  # once, and not before it was started
        before = history.state
        history.happen(timed)
        failures += history.state.first_failure is not None and before.first_failure is None
        if before.phase is Phase.DONE:
            assert history.state is before
    starts = [a.attempt for a in history.actions if isinstance(a, StartWorkers)]
    assert starts == list(range(len(starts)))
    assert len(starts) <= 3
    assert len(history.state.past) <= failures <= len(starts)
    assert len(history.finishes) == history.is_in(Phase.DONE)
