"""How what ranks tell gets into metrics.jsonl, and what is kept of it in memory."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from zlaunch.insight.deepspeed_lines import Overflow, StepReport, Throughput
from zlaunch.insight.loss_scale import LossScaleState
from zlaunch.launcher.metrics import Metrics
from zlaunch.run.metrics import Metric, decode
from zlaunch.system.loop import Loop

SCALE = LossScaleState()


class Kept:
    """Metrics whose file is a list."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.metrics = Metrics(self.lines.append)

    def written(self) -> list[Metric]:
        self.metrics.close()
        return [m for m in map(decode, b"".join(self.lines).splitlines()) if m is not None]


def test_all_that_is_told_of_a_step_is_one_object() -> None:
    kept = Kept()
    kept.metrics.take_deepspeed(0, StepReport(4, 1, (0.5,)), SCALE, SCALE)
    kept.metrics.take_deepspeed(0, Throughput(4, 4, 99.0), SCALE, SCALE)
    kept.metrics.take(0, b"step 4 loss 0.5\n")
    kept.metrics.take_deepspeed(0, StepReport(6, 1, (0.25,)), SCALE, SCALE)
    told = [(m.source, m.step, m.lr, m.samples_per_second, m.loss) for m in kept.written()]
    assert sorted(told, key=repr) == [
        ("deepspeed", 4, 0.5, 99.0, None),
        ("deepspeed", 6, 0.25, None, None),
        ("print", 4, None, None, 0.5),
    ]


def test_each_rank_keeps_its_own() -> None:
    kept = Kept()
    for rank in (0, 1):
        kept.metrics.take(rank, b"step 1/9 loss 0.5\nstep 2 loss 0.%d\n" % rank)
    assert [(m.rank, m.step, m.total, m.loss) for m in kept.metrics.newest()] == [
        (0, 2, 9, 0.0),
        (1, 2, 9, 0.1),
    ]
    assert len(kept.written()) == 4
    assert kept.metrics.ranks == [0, 1]


def test_an_attempt_begins_anew() -> None:
    kept = Kept()
    kept.metrics.take(0, b"step 1 loss 0.5\nstep 2 lo")
    kept.metrics.end(0)
    kept.metrics.begin_attempt(1)
    kept.metrics.take(0, b"ss 9\nstep 1 loss 0.25\n")
    assert [(m.attempt, m.step, m.loss) for m in kept.written()] == [(0, 1, 0.5), (1, 1, 0.25)]
    assert [m.attempt for m in kept.metrics.newest()] == [1]


def test_a_last_line_without_an_end_counts() -> None:
    kept = Kept()
    kept.metrics.take(0, b"step 3 loss 0.5")
    assert not list(kept.metrics.newest())
    kept.metrics.end(0)
    assert [m.step for m in kept.written()] == [3]


def test_an_overflow_is_that_of_its_line() -> None:
    kept = Kept()
    kept.metrics.take(
        0,
        b" iteration 1/ 9 | lm loss: 2.0 | number of skipped iterations: 1 |\n"
        b" iteration 2/ 9 | lm loss: 2.0 | number of skipped iterations: 0 |\n",
    )
    assert [(m.step, m.overflow, m.skipped) for m in kept.written()] == [(1, True, 1), (2, None, 1)]
    (newest,) = kept.metrics.newest()
    assert newest.overflow is None and newest.skipped == 1


def test_a_flood_is_thinned_and_its_newest_kept() -> None:
    kept = Kept()
    lines = [b"step %d/200000 loss 0.5\n" % n for n in range(100_000)]
    begun = time.monotonic()
    for at in range(0, len(lines), 50):
        kept.metrics.take(0, b"".join(lines[at : at + 50]))
    kept.metrics.end(0)
    took = time.monotonic() - begun
    written = kept.written()
    assert [m.step for m in written[:990]] == list(range(990))  # the first come all
    assert written[-1].step == 99_999
    assert len(written) <= 1000 + took + 3
    assert [m.step for m in kept.metrics.newest()] == [99_999]


def test_a_flood_of_overflows_is_thinned_and_none_is_uncounted() -> None:
    kept, state = Kept(), SCALE
    line = Overflow(0, 4.0, 2.0)
    begun = time.monotonic()
    for _ in range(20_000):
        before = state
        state = replace(state, skipped=state.skipped + 1)
        kept.metrics.take_deepspeed(0, line, before, state)
    kept.metrics.end(0)
    took = time.monotonic() - begun
    written = kept.written()
    assert [m.skipped for m in written[:990]] == list(range(1, 991))
    assert (written[-1].skipped, written[-1].overflow) == (20_000, True)
    assert len(written) <= 1000 + took + 3


def test_the_newest_is_written_though_nothing_follows() -> None:
    loop, lines = Loop(), []
    metrics = Metrics(lines.append, loop)
    metrics.take(0, b"step 7 loss 0.5\n")
    assert not lines
    loop.run()  # to the last timer
    loop.close()
    metric = decode(b"".join(lines))
    assert metric is not None and metric.step == 7


def test_what_others_add_stands_beside_it() -> None:
    kept = Kept()
    kept.metrics.take(0, b"step 7/9 loss 0.5\n")
    system = Metric(1.0, 0, 0, "system", rss=5)
    kept.metrics.add(system)
    assert system in kept.metrics.newest()
    assert system in kept.written()


def test_time_left_needs_a_total_and_two_steps() -> None:
    kept = Kept()
    kept.metrics.take(0, b"step 1/1000000 loss 0.5\n")
    assert kept.metrics.seconds_left(0) is None
    time.sleep(0.01)
    kept.metrics.take(0, b"step 2/1000000 loss 0.5\n")
    left = kept.metrics.seconds_left(0)
    assert left is not None and left > 1000
    kept.metrics.take(1, b"step 1 loss 0.5\n")
    time.sleep(0.01)
    kept.metrics.take(1, b"step 2 loss 0.5\n")
    assert kept.metrics.seconds_left(1) is None
    assert kept.metrics.seconds_left(5) is None


@pytest.mark.parametrize("size", [64 << 10, 100])
def test_what_is_held_of_a_line_without_an_end_is_bounded(size: int) -> None:
    kept = Kept()
    for _ in range(200):
        kept.metrics.take(0, b"%|loss" * (size // 6))
    assert len(kept.metrics._ranks[0].lines._tail) <= 4096
