"""How a run stands, by what happened and what its ranks told."""

from __future__ import annotations

from typing import Any

import pytest

from zlaunch.insight.board import Board
from zlaunch.run.metrics import Metric

WORKERS = [
    {"rank": 0, "host": "a", "slot": 3, "env": {}},
    {"rank": 1, "host": "b", "slot": 0, "env": {"DS_ACCELERATOR": "cpu"}},
]


def board(world: int = 2, started: bool = True) -> Board:
    made = Board(world, WORKERS)
    for rank in range(world if started else 0):
        made.event({"event": "Started", "rank": rank, "pid": 100 + rank, "at": 1000.0})
    return made


def tell(board: Board, at: float, rank: int = 0, source: str = "print", **fields: Any) -> None:
    board.metric(Metric(at, fields.pop("attempt", 0), rank, source, **fields))


def test_places_and_states() -> None:
    seen = board()
    seen.event({"event": "Exited", "rank": 1, "exit": {"code": 3, "signal": None}, "at": 1001.0})
    seen.wrote(0, 1004.0)
    first, second = seen.snapshot(1006.0)["ranks"]
    assert first == {
        "rank": 0, "host": "a", "device": "GPU 3", "state": "running", "pid": 100, "silent": 2.0
    }  # fmt: skip
    assert (second["device"], second["state"], second["code"]) == ("CPU", "ended", 3)
    assert "silent" not in second


def test_a_rank_that_has_written_nothing_is_silent_since_its_start() -> None:
    assert board().snapshot(1007.5)["ranks"][0]["silent"] == 7.5


def test_without_a_launcher_nobody_runs() -> None:
    seen = board()
    tell(seen, 1001.0, source="system", rss=5)
    ranks = seen.snapshot(1009.0, over=True)["ranks"]
    assert [rank["state"] for rank in ranks] == ["lost", "lost"]
    assert "silent" not in ranks[0]


def test_the_newest_of_each_value_is_kept() -> None:
    seen = board()
    tell(seen, 1001.0, step=1, loss=2.5, lr=0.1)
    tell(seen, 1002.0, source="deepspeed", loss_scale=65536.0, skipped=1)
    tell(seen, 1003.0, step=2, loss=float("nan"))
    tell(seen, 1004.0, source="system", rss=7, cpu=1.5)
    rank = seen.snapshot(1005.0)["ranks"][0]
    told = {name: rank[name] for name in ("step", "loss", "lr", "loss_scale", "skipped", "rss")}
    assert told == {
        "step": 2, "loss": "nan", "lr": 0.1, "loss_scale": 65536.0, "skipped": 1, "rss": 7
    }  # fmt: skip
    assert seen.snapshot(1005.0)["losses"] == [2.5]


def test_progress_goes_on_between_two_lines() -> None:
    seen = board()
    tell(seen, 1000.0, step=10, total=100)
    assert "left" not in seen.snapshot(1000.0)["progress"]
    tell(seen, 1020.0, step=20)  # the total was told before
    assert seen.snapshot(1020.0)["progress"] == {"step": 20, "total": 100, "left": 160.0}
    assert seen.snapshot(1030.0)["progress"]["left"] == 150.0
    assert "left" not in seen.snapshot(1030.0, over=True)["progress"]
    tell(seen, 1040.0, step=1, total=100)  # another epoch
    assert "left" not in seen.snapshot(1040.0)["progress"]


def test_one_source_does_not_lend_its_total_to_another() -> None:
    seen = board()
    tell(seen, 1000.0, step=10, total=100)
    tell(seen, 1001.0, source="deepspeed", step=2)
    assert seen.snapshot(1001.0)["progress"]["step"] == 10


def test_the_first_rank_that_tells_is_followed() -> None:
    seen = board()
    tell(seen, 1000.0, rank=1, step=7, total=10, loss=7.0)
    assert seen.snapshot(1000.0)["progress"]["step"] == 7
    tell(seen, 1001.0, rank=0, step=5, total=10, loss=5.0)
    tell(seen, 1002.0, rank=1, step=8, total=10, loss=8.0)
    snapshot = seen.snapshot(1002.0)
    assert (snapshot["progress"]["step"], snapshot["losses"]) == (5, [5.0])


def test_an_overflow_is_marked_for_a_while() -> None:
    seen = board()
    tell(seen, 1000.0, source="deepspeed", overflow=True, skipped=1)
    assert seen.snapshot(1010.0)["ranks"][0]["overflow"]
    assert "overflow" not in seen.snapshot(1100.0)["ranks"][0]


@pytest.mark.parametrize(
    ("signum", "kills", "marked"), [(9, 1, True), (9, 0, False), (15, 1, False)]
)
def test_a_rank_that_the_kernel_killed_ran_out_of_memory(
    signum: int, kills: int, marked: bool
) -> None:
    seen = board()
    end = {"exit": {"code": None, "signal": signum}, "signs": {"oom_kills": kills}}
    seen.event({"event": "Exited", "rank": 1, **end})
    assert ("out_of_memory" in seen.snapshot(1001.0)["ranks"][1]) == marked


def test_a_restart_begins_anew() -> None:
    seen = board()
    tell(seen, 1000.0, step=90, total=100, loss=1.0)
    seen.ran_out_of_memory(0)
    seen.event({"event": "Started", "rank": 0, "pid": 200, "at": 1050.0})
    tell(seen, 1060.0, step=1, total=100, attempt=1)
    tell(seen, 1061.0, step=91, total=100, attempt=0)  # came late
    snapshot = seen.snapshot(1062.0)
    assert snapshot["progress"] == {"step": 1, "total": 100}
    assert "loss" not in snapshot["ranks"][0]
    assert "out_of_memory" not in snapshot["ranks"][0]


@pytest.mark.parametrize(
    "fields", [{}, {"rank": 9, "event": "Started"}, {"rank": "0"}, {"event": "AgentLost"}]
)
def test_what_is_no_event_of_a_rank_is_left_aside(fields: dict[str, Any]) -> None:
    seen = board(started=False)
    seen.event(fields)
    tell(seen, 1.0, rank=9, step=3)
    assert [rank["state"] for rank in seen.snapshot(1.0)["ranks"]] == ["waiting", "waiting"]
