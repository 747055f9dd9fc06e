"""Metrics made into curves."""

from __future__ import annotations

import math
from typing import Any

from zlaunch.insight.curves import Curves, spread
from zlaunch.insight.thinning import Point
from zlaunch.run.metrics import Metric


def gathered(*metrics: dict[str, Any]) -> Curves:
    curves = Curves()
    for number, fields in enumerate(metrics):
        known = {"at": float(number), "attempt": 0, "rank": 0, "source": "print", **fields}
        curves.take(Metric(**known))
    return curves


def test_a_curve_for_each_rank_and_attempt() -> None:
    curves = gathered(
        {"step": 1, "loss": 3.0},
        {"step": 1, "loss": 4.0, "rank": 1},
        {"step": 2, "loss": 2.0},
        {"step": 1, "loss": 2.5, "attempt": 1},
    )
    drawn = {(c.attempt, c.rank): [p.value for p in c.points] for c in curves.of("loss")}

    assert drawn == {(0, 0): [3.0, 2.0], (0, 1): [4.0], (1, 0): [2.5]}
    assert curves.of("lr") == ()
    assert curves.first_steps == {(0, 0): 0.0, (0, 1): 1.0, (1, 0): 3.0}


def test_of_two_that_tell_the_same_the_fuller_one_is_drawn() -> None:
    curves = gathered(
        {"source": "deepspeed", "step": 10, "lr": 0.5},
        *({"source": "trainer", "step": step, "lr": 0.1} for step in range(3)),
    )

    assert [(c.source, c.told) for c in curves.of("lr")] == [("trainer", 3)]


def test_what_is_not_finite_stands_beside_the_curve_at_the_last_good_value() -> None:
    curves = gathered(
        {"step": 1, "loss": 2.0}, {"step": 2, "loss": math.nan}, {"step": 3, "loss": math.inf}
    )
    (curve,) = curves.of("loss")

    assert [p.value for p in curve.points] == [2.0]
    assert [(p.step, p.value) for p in curve.broken] == [(2, 2.0), (3, 2.0)]
    assert curve.broken_told == 2


def test_every_overflow_is_counted_at_the_scale_that_it_was_tried_with() -> None:
    curves = gathered(
        {"source": "deepspeed", "loss_scale": 1024.0},
        {"source": "deepspeed", "overflow": True, "loss_scale": 512.0, "skipped": 1},
        {"source": "deepspeed", "overflow": True, "loss_scale": 256.0, "skipped": 2},
    )

    assert [point.value for point in curves.overflows] == [1024.0, 512.0]
    assert curves.skipped == 2


def test_an_overflow_tells_that_the_scale_had_grown() -> None:
    curves = gathered(
        {"source": "deepspeed", "loss_scale": 1024.0},
        {"source": "deepspeed", "overflow": True, "loss_scale": 2048.0},  # hysteresis: it stays
        {"source": "deepspeed", "overflow": True, "loss_scale": 1024.0},
    )

    assert [point.value for point in curves.overflows] == [2048.0, 2048.0]


def test_where_no_step_is_told_it_lies_between_its_neighbours() -> None:
    curves = gathered(
        {"at": 10.0, "step": 100, "loss": 1.0},
        {"at": 15.0, "source": "deepspeed", "overflow": True, "loss_scale": 2.0},
        {"at": 20.0, "step": 200, "loss": 1.0},
        {"at": 90.0, "source": "deepspeed", "overflow": True, "loss_scale": 1.0},
    )

    assert [point.step for point in curves.placed(curves.overflows)] == [150, 200]
    assert gathered().placed([Point(None, None, 1.0, 1.0)])[0].step is None


def test_between_two_attempts_no_step_is_made_up() -> None:
    curves = gathered(
        {"at": 10.0, "step": 100, "loss": 1.0}, {"at": 20.0, "attempt": 1, "step": 1, "loss": 1.0}
    )

    assert curves.placed([Point(None, None, 15.0, 1.0)])[0].step == 100


def test_few_of_many_ranks_and_attempts_have_curves() -> None:
    many = [{"rank": r, "attempt": a, "loss": 1.0} for a in range(20) for r in range(100)]
    curves = gathered(*many)
    drawn = curves.of("loss")

    assert {curve.rank for curve in drawn} == set(range(8))
    assert {curve.attempt for curve in drawn} == set(range(8, 20))
    assert curves.left_out("loss") and not curves.left_out("lr")


def test_what_ranks_use_is_no_training() -> None:
    curves = gathered({"source": "system", "rank": 3, "rss": 7, "gpu_memory": 5})

    assert curves.empty
    assert [p.value for p in curves.usage["rss"][3]] == [7.0]
    assert [p.value for p in curves.usage["gpu_memory"][3]] == [5.0]


def test_numbers_from_anywhere_do_no_harm() -> None:
    assert gathered({"rank": -1, "loss": 1.0}, {"rank": 10**9, "loss": 1.0}).empty


def test_many_ranks_lie_between_the_lowest_and_the_highest() -> None:
    series = {rank: [Point(None, None, t, rank + t) for t in (0.0, 10.0)] for rank in range(5)}
    first, last = spread(series, bins=2)

    assert (first.low, first.middle, first.high) == (0.0, 2.0, 4.0)
    assert (last.low, last.middle, last.high) == (10.0, 12.0, 14.0)
    assert spread({}) == ()
