"""When each rank ran, and how that ended."""

from __future__ import annotations

from typing import Any

from zlaunch.run.timeline import FAILED, LOST, REFUSED, RUNNING, STOPPED, WELL, timeline


def started(rank: int, at: float) -> dict[str, Any]:
    return {"event": "Started", "rank": rank, "at": at, "pid": 100 + rank}


def exited(rank: int, at: float, *, told: bool = False, **end: int) -> dict[str, Any]:
    return {
        "event": "Exited", "rank": rank, "at": at, "told": told,
        "exit": {"code": None, "signal": None, **end},
    }  # fmt: skip


RESTARTED = [
    started(0, 1.0),
    started(1, 1.1),
    exited(1, 5.0, code=3),
    exited(0, 5.5, told=True, signal=15),
    started(0, 9.0),
    started(1, 9.1),
    exited(0, 20.0, code=0),
    exited(1, 20.1, code=0),
]


def test_a_span_for_each_rank_in_each_attempt() -> None:
    told = timeline(RESTARTED, 2, over=True)
    spans = [(s.attempt, s.rank, s.began, s.ended, s.how) for s in told.spans]

    assert spans == [
        (0, 0, 1.0, 5.5, STOPPED),
        (0, 1, 1.1, 5.0, FAILED),
        (1, 0, 9.0, 20.0, WELL),
        (1, 1, 9.1, 20.1, WELL),
    ]
    assert told.attempts == 2
    assert {a: s.rank for a, s in told.first_failures().items()} == {0: 1}
    assert told.spans[1].code == 3 and told.spans[0].signal == 15


def test_what_has_no_end_runs_or_is_lost() -> None:
    events = [started(0, 1.0), started(1, 1.0), exited(1, 2.0, code=0)]

    assert [s.how for s in timeline(events, 2, over=False).spans] == [RUNNING, WELL]
    assert [s.how for s in timeline(events, 2, over=True).spans] == [LOST, WELL]


def test_a_rank_that_was_not_started() -> None:
    (span,) = timeline([{"event": "Refused", "rank": 0, "at": 3.0}], 1, over=True).spans

    assert (span.how, span.began, span.ended) == (REFUSED, 3.0, 3.0)


def test_what_happened_to_the_whole_run() -> None:
    told = timeline(
        [
            {"event": "Interrupted", "at": 4.0, "signum": 15},
            {"event": "AgentLost", "at": 5.0, "node_rank": 1, "reason": "no answer"},
        ],
        2,
        over=True,
    )

    assert [(mark.text, mark.signal) for mark in told.marks] == [
        ("zlaunch was told to stop by", 15),
        ("node 1 was lost: no answer", None),
    ]


def test_events_from_anywhere_do_no_harm() -> None:
    strange: list[dict[str, Any]] = [
        {},
        {"event": "Started", "rank": 7, "at": 1.0},
        {"event": "Started", "rank": 0, "at": "soon"},
        exited(0, 2.0, code=0),
    ]

    assert timeline(strange, 1, over=True).spans == ()
    assert timeline([], 1, over=True).attempts == 0
