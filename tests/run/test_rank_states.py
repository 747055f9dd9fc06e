"""What became of each rank, by the events that were written down."""

from __future__ import annotations

from zlaunch.run.rank_states import RankState, rank_states


def started(rank: int, pid: int) -> dict:
    return {"event": "Started", "rank": rank, "pid": pid, "at": 1.0}


def exited(rank: int, code: int | None, signal: int | None = None) -> dict:
    return {"event": "Exited", "rank": rank, "at": 2.0, "exit": {"code": code, "signal": signal}}


EVENTS = [started(0, 10), started(1, 11), exited(1, None, 9), {"event": "Refused", "rank": 2}]


def test_each_rank_is_where_its_last_event_left_it() -> None:
    assert rank_states(EVENTS, 4, over=False) == [
        RankState("running", 0, 10, at=1.0),
        RankState("ended", 0, 11, signal=9, at=2.0),
        RankState("refused", 0),
        RankState(),
    ]


def test_no_rank_of_a_run_that_is_over_is_running() -> None:
    states = [state.state for state in rank_states(EVENTS, 4, over=True)]
    assert states == ["lost", "ended", "refused", "not started"]


def test_a_rank_that_is_started_again_counts_its_attempts() -> None:
    again = [*EVENTS, exited(0, 3), started(0, 20), started(1, 21)]
    first, second, *_ = rank_states(again, 4, over=False)
    assert (first.attempt, first.pid, first.code) == (1, 20, None)
    assert (second.attempt, second.signal) == (1, None)


def test_what_is_no_event_of_a_rank_is_passed_over() -> None:
    strange = [{"event": "Started", "rank": 7}, {"event": "Told"}, {"rank": "0"}, {"rank": 0}]
    assert rank_states(strange, 1, over=False) == [RankState()]
