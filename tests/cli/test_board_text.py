"""The view of a run: what fits a screen, who is shown, and how values are written."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from zlaunch.cli.board_plain import plain_lines
from zlaunch.cli.board_screen import Painter
from zlaunch.cli.board_text import Line, Screen, fold, screen_lines, sparkline
from zlaunch.cli.board_values import gib, scale, width_of

GIB = 1 << 30


def rank(number: int, **fields: Any) -> dict[str, Any]:
    return {"rank": number, "host": f"h{number // 8}", "device": f"GPU {number % 8}",
            "state": "running", "silent": 2.0, **fields}  # fmt: skip


FULL = {
    "step": 1200, "loss": 2.3125, "lr": 1e-4, "grad_norm": 0.8, "loss_scale": 65536.0,
    "skipped": 12, "samples_per_second": 310.5, "tokens_per_second": 90000.0,
    "gpu_memory": 71 * GIB, "gpu_memory_total": 141 * GIB, "gpu_utilization": 98.0,
    "rss": 9 * GIB, "cpu": 1.5,
}  # fmt: skip


def snapshot(world: int = 8, **fields: Any) -> dict[str, Any]:
    return {
        "run": "20261201-000000-00000000", "name": "mine", "state": "running", "seconds": 725.0,
        "ranks": [rank(number, **(FULL if number == 0 else {})) for number in range(world)],
        "losses": [3.0, 2.5, 2.3125],
        "progress": {"step": 1200, "total": 10000, "left": 4000.0}, **fields,
    }  # fmt: skip


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def drawn(shot: dict[str, Any], columns: int, rows: int) -> list[str]:
    return texts(screen_lines(shot, Screen(columns, rows)))


@pytest.mark.parametrize("columns", [1, 7, 20, 40, 80, 120, 200])
@pytest.mark.parametrize("rows", [1, 2, 5, 12, 24, 50])
@pytest.mark.parametrize("world", [1, 8, 300])
def test_it_fits_every_screen(columns: int, rows: int, world: int) -> None:
    lines = drawn(snapshot(world, name="名前が長い" * 9), columns, rows)
    assert len(lines) <= rows
    assert max(map(width_of, lines)) <= columns


def test_a_wide_screen_shows_all() -> None:
    lines = drawn(snapshot(16), 200, 50)
    assert lines[0] == "running, 12:05 min  mine  run 20261201-000000-00000000"
    assert lines[1].startswith("step 1200/10000 ━━━━──")
    assert "12%, 1:06:40 h left   loss 2.312 █" in lines[1]
    titles = "rank host device state step loss lr grad norm scale skipped samples/s tokens/s"
    assert lines[2].split() == [*titles.split(), "GPU", "GiB", "busy", "CPU", "RSS", "GiB",
                                "last", "line"]  # fmt: skip
    assert lines[3].split() == [
        *("0", "h0", "GPU", "0", "running", "1200", "2.312", "0.0001", "0.8", "65536", "12"),
        *("310.5", "90000", "71.0/141.0", "98", "%", "1.50", "9.00", "2", "s"),
    ]
    assert len(lines) == 3 + 16


def test_a_narrow_screen_shows_what_matters_most() -> None:
    lines = drawn(snapshot(2), 40, 24)
    assert lines[3].split() == ["rank", "state", "step", "loss", "last", "line"]


def test_columns_that_nobody_fills_are_left_out() -> None:
    lines = drawn({"ranks": [rank(0), rank(1)]}, 80, 24)
    assert lines[1].split() == ["rank", "device", "state", "last", "line"]


def test_of_many_ranks_those_in_trouble_are_shown() -> None:
    ranks = [rank(number, gpu_memory=number * GIB) for number in range(100)]
    ranks[97] |= {"state": "ended", "code": 1}
    ranks[55] |= {"out_of_memory": True}
    ranks[70] |= {"overflow": True}
    ranks[88] |= {"silent": 500.0, "step": 3}
    ranks[89] |= {"silent": 500.0}  # it writes nothing anyway
    shown, others = fold(ranks, 8)
    assert [one["rank"] for one in shown] == [0, 1, 2, 55, 70, 88, 97]
    assert len(shown) + len(others) == 100
    lines = drawn({"ranks": ranks}, 80, 10)
    assert lines[-1] == "93 more: 93 running; GPU 3.00-99.0 GiB; last line 8:20 min ago"


@pytest.mark.parametrize(("count", "room", "shown"), [(8, 8, 8), (9, 8, 7), (3, 1, 0)])
def test_nothing_is_folded_that_has_room(count: int, room: int, shown: int) -> None:
    assert len(fold([rank(number) for number in range(count)], room)[0]) == shown


def test_marks_stand_out() -> None:
    ranks = [rank(0, overflow=True), rank(1, out_of_memory=True), rank(2, state="ended", code=2)]
    lines = screen_lines({"ranks": ranks}, Screen(80, 24))
    styles = {text.strip(): style for line in lines for text, style in line}
    assert (styles["overflow"], styles["OUT OF MEMORY"]) == ("warn", "alarm")
    assert styles["exit 2"] == "bad"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"phase": "running"}, "running, 12:05 min"),
        ({"phase": "stopping"}, "stopping, 12:05 min"),
        ({"attempt": 1, "most_restarts": 3}, "running, restart 1 of 3, 12:05 min"),
        ({"state": "failed", "exit_code": 3}, "failed (exit code 3), 12:05 min"),
        ({"state": "lost", "seconds": None}, "lost"),
    ],
)
def test_how_the_run_stands(fields: dict[str, Any], words: str) -> None:
    assert drawn(snapshot(**fields), 200, 50)[0].startswith(f"{words}  mine")


def test_plain_lines() -> None:
    ranks = [rank(0, **FULL), rank(1, state="ended", signal=9, out_of_memory=True)]
    assert plain_lines(snapshot(ranks=ranks)) == [
        (
            "run 20261201-000000-00000000 (mine) running, 12:05 min; "
            "step 1200 of 10000 (12%), 1:06:40 h left, loss 2.312"
        ),
        (
            "rank 0 (h0, GPU 0) running: step 1200, loss 2.312, lr 0.0001, grad norm 0.8, "
            "loss scale 65536, 12 skipped, 310.5 samples/s, 90000 tokens/s, GPU 71.0 of 141.0 GiB, "
            "GPU 98 % busy, CPU 1.50 cores, RSS 9.00 GiB, last line 2 s ago"
        ),
        "rank 1 (h0, GPU 1) SIGKILL: last line 2 s ago, OUT OF MEMORY",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (65536.0, "65536"), (2.0**32, "2^32"), (1.5e7, "1.5e+07")]
)
def test_loss_scales(value: float, text: str) -> None:
    assert scale(value) == text


def test_sizes() -> None:
    assert [gib(None), gib(GIB // 4), gib(12 * GIB)] == ["", "0.25", "12.0"]


def test_a_sparkline_has_room_for_any_number_of_values() -> None:
    assert sparkline([1.0, 1.0], 20) == "▁▁"
    assert sparkline([0.0, 7.0], 20) == "▁█"
    assert len(sparkline([float(n) for n in range(1000)], 20)) == 20


def test_a_sparkline_of_numbers_at_the_edge() -> None:
    largest, least = sys.float_info.max, 5e-324
    assert sparkline([-largest, largest], 20) == "▁█"
    assert sparkline([largest] * 50, 20) == "▁" * 17
    assert len(sparkline([0.0, least, 8 * least], 20)) == 3


def test_a_painter_keeps_to_what_the_terminal_has() -> None:
    dull = Painter({"TERM": "xterm", "NO_COLOR": "1"}, "ascii").paint(snapshot(), 80, 24)
    text = "".join(line for line, _ in dull)
    assert text.isascii()
    assert "\x1b[3" not in text
    colours = Painter({"TERM": "xterm-256color"}, "utf-8").paint(snapshot(), 80, 24)
    assert "\x1b[32m" in "".join(line for line, _ in colours)
    assert [width for _, width in colours] == [width_of(line) for line in drawn(snapshot(), 80, 24)]
