from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.insight.deepspeed_lines import (
    HysteresisRestored,
    Line,
    MinimumScale,
    Overflow,
    ScaleGrown,
    ScaleReduced,
    ScaleSet,
    StaticScale,
    StepReport,
    Throughput,
    parse_line,
)
from zlaunch.insight.loss_scale import LossScaleState, Notice, Reading, observe, summarize

RECORDINGS = Path(__file__).parents[1] / "recordings"

Series = tuple[LossScaleState, list[Reading]]


def follow(lines: Iterable[tuple[int, Line]], state: LossScaleState | None = None) -> Series:
    state = LossScaleState() if state is None else state
    readings = []
    for rank, line in lines:
        state, reading = observe(state, rank, line)
        readings.append(reading)
    return state, readings


def rank0(*lines: Line) -> list[tuple[int, Line]]:
    return [(0, line) for line in lines]


def recorded(name: str) -> list[tuple[int, Line]]:
    text = (RECORDINGS / name).read_text(errors="replace")
    return rank0(*(line for line in map(parse_line, text.splitlines()) if line is not None))


def notices(readings: Iterable[Reading]) -> list[Notice]:
    return [notice for reading in readings for notice in reading.notices]


def warnings(readings: Iterable[Reading]) -> list[str]:
    return [notice.text for notice in notices(readings) if notice.level == "warning"]


def holding(readings: Iterable[Reading], text: str) -> int:
    return sum(text in notice.text for notice in notices(readings))


def falling(start: float, end: float = 1.0) -> list[tuple[int, Line]]:
    lines: list[Line] = []
    while start > end:
        lines.append(Overflow(0, start, start / 2))
        start /= 2
    return rank0(*lines)


class TestRecordings:
    @pytest.mark.parametrize(("stage", "last"), [(1, 131072), (2, 65536), (3, 65536)])
    def test_a_search_that_settles(self, stage: int, last: int) -> None:
        state, readings = follow(recorded(f"overflow_stage{stage}.log"))
        summary = summarize(state)
        assert summary is not None
        assert (summary.skipped, summary.steps) == (13, 40)
        assert (summary.first_scale, summary.last_scale) == (16777216, last)
        assert (summary.verdict, summary.at_minimum) == ("settled", False)
        assert holding(readings, "still being found (") == 1
        assert holding(readings, "loss scale settled at 65536 after 9 skipped steps") == 1
        assert len(warnings(readings)) == 1  # nine in a row, at the start
        assert "normal only while the loss scale is still being found" in warnings(readings)[0]

    def test_a_scale_that_grew_in_silence(self) -> None:
        """A run on GPUs: from 2^24 down to 2^16, doubled unheard three times, then down again."""
        state, readings = follow(recorded("fp16_growth.log"))
        summary = summarize(state)
        assert summary is not None
        assert (summary.skipped, summary.steps) == (12, 150)
        assert (summary.first_scale, summary.last_scale) == (16777216, 131072)
        assert summary.verdict == "settled"
        assert sum(reading.mark == "mark" for reading in readings) == 3

    @pytest.mark.parametrize("stage", [1, 2, 3])
    def test_the_search_is_folded_and_later_overflows_are_marked(self, stage: int) -> None:
        lines = recorded(f"overflow_stage{stage}.log")
        _, readings = follow(lines)
        marks = [
            reading.mark
            for (_, line), reading in zip(lines, readings, strict=True)
            if isinstance(line, Overflow)
        ]
        assert marks == ["fold"] * 9 + ["mark"] * 4

    def test_the_minimum_is_warned_of_once(self) -> None:
        state, readings = follow(recorded("minscale.log"))
        summary = summarize(state)
        assert summary is not None
        assert (summary.verdict, summary.at_minimum) == ("at minimum", True)
        assert (summary.skipped, summary.first_scale, summary.last_scale) == (4, 8, 1)
        assert len(warnings(readings)) == 1
        assert "minimum" in warnings(readings)[0]
        assert "bf16" in warnings(readings)[0]

    @pytest.mark.parametrize(
        "name", ["auto", "badbatch", "badkey", "nccltimeout", "oom", "ordinal", "peerdies"]
    )
    def test_other_runs_give_no_alarm(self, name: str) -> None:
        state, readings = follow(recorded(f"{name}.log"))
        assert notices(readings) == []
        assert summarize(state) is None


class TestMinimum:
    def test_down_to_one_and_then_stuck_alerts_once(self) -> None:
        stuck = rank0(*[Overflow(0, 1.0, 1.0)] * 30)
        state, readings = follow(falling(65536.0) + stuck)
        assert holding(readings, "fell to its minimum (1)") == 1
        assert holding(readings, "5 steps in a row") == 1
        assert len(warnings(readings)) == 2
        summary = summarize(state)
        assert summary is not None
        assert (summary.skipped, summary.verdict) == (46, "at minimum")
        assert "bf16" in summary.text

    def test_the_search_warning_says_how_far_it_can_still_fall(self) -> None:
        _, readings = follow(falling(65536.0, 2048.0))
        assert (
            "from 65536 to 2048, 11 halvings are left until its minimum 1"
            in (warnings(readings)[0])
        )

    def test_a_known_minimum_counts(self) -> None:
        state, readings = follow(falling(1024.0, 256.0), LossScaleState(min_scale=256.0))
        assert holding(readings, "fell to its minimum (256)") == 1
        assert state.at_minimum

    def test_an_unknown_minimum_is_recognised(self) -> None:
        state, readings = follow(rank0(*[Overflow(0, 128.0, 128.0)] * 10))
        assert holding(readings, "fell to its minimum (128)") == 1
        assert holding(readings, "in a row") == 0
        assert state.at_minimum

    def test_an_exception_alone_is_enough(self) -> None:
        state, readings = follow([(1, MinimumScale()), (0, MinimumScale())])
        summary = summarize(state)
        assert len(warnings(readings)) == 1
        assert [reading.mark for reading in readings] == ["mark", "mark"]
        assert summary is not None
        assert (summary.verdict, summary.skipped) == ("at minimum", 0)

    def test_a_scale_that_recovers_is_settled(self) -> None:
        lines = falling(8.0) + rank0(StepReport(100, 3))
        summary = summarize(follow(lines)[0])
        assert summary is not None
        assert (summary.verdict, summary.at_minimum) == ("settled", True)


class TestRows:
    def test_isolated_overflows_never_warn(self) -> None:
        lines: list[Line] = [StepReport(1000, 0)]
        for k in range(1, 20):
            lines += [Overflow(0, 65536.0, 32768.0), StepReport(1000 * (k + 1), k)]
        state, readings = follow(rank0(*lines))
        assert notices(readings) == []
        summary = summarize(state)
        assert summary is not None
        assert (summary.verdict, summary.skipped) == ("settled", 19)

    def test_a_row_after_settling_warns_once_and_is_unstable(self) -> None:
        lines = rank0(StepReport(100, 0)) + falling(65536.0, 64.0)
        state, readings = follow(lines)
        assert len(warnings(readings)) == 1
        assert "nothing is being learned" in warnings(readings)[0]
        assert {reading.mark for reading in readings[1:]} == {"mark"}
        state, readings = follow(rank0(StepReport(200, 10)) + falling(64.0, 2.0), state)
        assert len(warnings(readings)) == 1  # a new row
        summary = summarize(state)
        assert summary is not None
        assert summary.verdict == "unstable"

    @pytest.mark.parametrize(
        "evidence",
        [
            [StepReport(8, 4)],
            [ScaleGrown(4096.0, 8192.0)],
            [HysteresisRestored(2)],
            [Overflow(0, 16384.0, 8192.0)],
            [Overflow(0, 4096.0, hysteresis_left=1, kind="hysteresis")],
        ],
        ids=["report", "growth", "hysteresis line", "higher scale", "hysteresis restored"],
    )
    def test_a_good_step_ends_the_row_and_the_search(self, evidence: list[Line]) -> None:
        state, _ = follow(falling(65536.0, 4096.0))
        assert (state.streak, state.settled) == (4, False)
        state, readings = follow(rank0(*evidence), state)
        assert state.settled
        assert state.streak < 2
        assert holding(readings, "loss scale settled at 4096 after 4 skipped steps") == 1
        assert warnings(readings) == []

    def test_throughput_is_no_evidence(self) -> None:
        lines = falling(65536.0, 4096.0) + rank0(Throughput(10, 10, 1.0)) + falling(4096.0, 2048.0)
        state, readings = follow(lines)
        assert not state.settled
        assert len(warnings(readings)) == 1

    def test_a_scale_above_the_first_one_means_good_steps_before(self) -> None:
        state = LossScaleState(initial_scale=65536.0)
        state, readings = follow(rank0(Overflow(0, 131072.0, 65536.0)), state)
        assert state.settled
        assert readings == [Reading("mark")]

    def test_many_skipped_steps_lately_are_unstable(self) -> None:
        lines: list[Line] = [StepReport(100, 0)]
        for k in range(1, 61):
            lines += [Overflow(0, 4096.0, 2048.0), StepReport(100 + 5 * k, k)]
        summary = summarize(follow(rank0(*lines))[0])
        assert summary is not None
        assert summary.verdict == "unstable"
        assert "20%" in summary.text

    def test_what_was_long_ago_is_forgiven(self) -> None:
        lines: list[Line] = [StepReport(100, 0)]
        for k in range(1, 61):
            lines += [Overflow(0, 4096.0, 2048.0), StepReport(100 + 5 * k, k)]
        lines += [StepReport(400 + 50 * k, 60) for k in range(1, 9)]
        summary = summarize(follow(rank0(*lines))[0])
        assert summary is not None
        assert summary.verdict == "settled"

    def test_a_search_without_an_end_says_so(self) -> None:
        summary = summarize(follow(falling(65536.0, 8192.0))[0])
        assert summary is not None
        assert summary.verdict == "searching"
        assert "no good step was reported" in summary.text


def stage0(iteration: int, before: float, *, restated: bool) -> list[Line]:
    lines: list[Line] = [
        Overflow(iteration=iteration, kind="iteration"),
        ScaleReduced(before, before / 2),
    ]
    if restated:
        lines.append(Overflow(None, before, before / 2, kind="restated"))
    return lines


class TestRanks:
    @pytest.mark.parametrize("restated", [False, True])
    @pytest.mark.parametrize("first", [0, 3])
    def test_every_rank_reports_and_a_step_counts_once(self, first: int, restated: bool) -> None:
        order = [first, *(rank for rank in range(4) if rank != first)]
        lines = [
            (rank, line)
            for k in range(4)
            for rank in order
            for line in stage0(k, 65536.0 / 2**k, restated=restated)
        ]
        state, readings = follow(lines)
        assert (state.skipped, state.streak) == (4, 4)
        assert (state.first_scale, state.last_scale) == (65536, 4096)
        assert holding(readings, "still being found (step skipped at 65536)") == 1
        assert warnings(readings) == []

    def test_a_rank_far_ahead_does_not_make_steps_count_twice(self) -> None:
        chunk = [line for k in range(6) for line in stage0(k, 65536.0 / 2**k, restated=True)]
        lines = [(3, line) for line in chunk] + [(0, line) for line in chunk]
        state, readings = follow([*lines, *rank0(*stage0(6, 1024.0, restated=True))])
        assert state.skipped == 7
        assert len(warnings(readings)) == 1

    def test_ranks_mixed_in_one_stream(self) -> None:
        one = stage0(0, 65536.0, restated=True)
        state, _ = follow(rank0(*(line for line in one for _ in range(2))))
        assert (state.skipped, state.last_scale) == (1, 32768)

    @given(st.lists(st.integers(0, 2), min_size=30, max_size=120))
    def test_any_interleaving_counts_each_step_once(self, picks: list[int]) -> None:
        chunk = [line for k in range(5) for line in stage0(k, 65536.0 / 2**k, restated=True)]
        left = {rank: list(chunk) for rank in range(3)}
        lines = [(rank, left[rank].pop(0)) for rank in picks if left[rank]]
        lines += [(rank, line) for rank in range(3) for line in left[rank]]
        state, readings = follow(lines)
        assert state.skipped == 5
        assert state.last_scale == 2048
        assert len(warnings(readings)) == 1

    @pytest.mark.parametrize("behind", [0, 1])
    def test_a_rank_that_is_read_after_another_is_no_news(self, behind: int) -> None:
        """Its lines say no iteration, and tell of a search that the other's have seen settle."""
        one = [line for _, line in recorded("overflow_stage2.log")]
        state, readings = follow([(1 - behind, line) for line in one])
        state, late = follow([(behind, line) for line in one], state)
        assert (state.skipped, len(warnings(readings))) == (13, 1)
        assert notices(late) == []
        assert [reading.mark for reading in late] == [reading.mark for reading in readings]

    @given(st.lists(st.integers(0, 2), max_size=150))
    def test_any_interleaving_says_and_folds_the_same(self, picks: list[int]) -> None:
        one = [line for _, line in recorded("overflow_stage2.log")]
        left = {rank: list(one) for rank in range(3)}
        lines = [(rank, left[rank].pop(0)) for rank in picks if left[rank]]
        lines += [(rank, line) for rank in range(3) for line in left[rank]]
        state, readings = follow(lines)
        alone, expected = follow(rank0(*one))
        assert (state.skipped, state.last_scale) == (alone.skipped, alone.last_scale)
        assert notices(readings) == notices(expected)
        folded = sum(reading.mark == "fold" for reading in readings)
        assert folded == 3 * sum(reading.mark == "fold" for reading in expected)

    def test_steps_that_only_another_rank_tells_of_are_known_by_their_iterations(self) -> None:
        some = [(0, line) for k in range(3) for line in stage0(k, 65536.0 / 2**k, restated=False)]
        rest = [
            (1, line) for k in range(4, 9) for line in stage0(k, 65536.0 / 2**k, restated=False)
        ]
        state, _ = follow(some + rest)
        assert (state.skipped, state.last_scale) == (8, 128)

    def test_a_report_of_a_rank_that_is_behind_ends_no_row(self) -> None:
        overflows = [Overflow(1, 65536.0 / 2**k, 32768.0 / 2**k) for k in range(5)]
        mine, theirs = rank0(*overflows), [(1, line) for line in overflows]
        before = [*rank0(StepReport(10, 0)), *theirs[:3], *rank0(StepReport(20, 0)), *theirs[3:]]
        state, readings = follow([*before, *mine])
        assert (state.skipped, state.worst_streak) == (5, 5)
        assert holding(readings, "5 steps in a row") == 1

    def test_a_detail_is_marked_once_the_scale_has_settled(self) -> None:
        detail = Overflow(0, kind="detail")
        _, readings = follow([*rank0(StepReport(10, 0), detail), (1, detail)])
        assert [reading.mark for reading in readings[1:]] == ["mark", "mark"]
        search = [line for _, line in recorded("overflow_stage2.log")]
        *_, last = follow([*rank0(*search), *rank0(detail)])[1]
        assert last.mark == "mark"

    def test_a_line_of_the_step_function_alone_counts(self) -> None:
        restated = Overflow(0, 65536.0, 32768.0, kind="restated")
        assert follow(rank0(restated))[0].skipped == 1

    def test_a_detail_is_not_a_step(self) -> None:
        state, readings = follow([(2, Overflow(2, kind="detail"))])
        assert readings == [Reading("fold")]
        assert summarize(state) is None

    def test_iterations_apart_have_good_steps_between(self) -> None:
        lines = [
            line for k in range(10) for line in stage0(100 * k, 65536.0 / 2**k, restated=False)
        ]
        state, readings = follow(rank0(*lines))
        assert (state.skipped, state.streak) == (10, 1)
        assert warnings(readings) == []


class TestWithoutADynamicScale:
    def test_non_finite_gradients(self) -> None:
        state, readings = follow(rank0(*[Overflow(0, kind="non-finite")] * 8))
        assert {reading.mark for reading in readings} == {"mark"}
        first, row = warnings(readings)
        assert "no loss scale is in use" in first
        assert "5 steps in a row" in row
        assert holding(readings, "being found") == 0
        summary = summarize(state)
        assert summary is not None
        assert summary.verdict == "non-finite gradients"

    def test_a_static_scale(self) -> None:
        lines: list[Line] = []
        for k in range(6):
            lines += [
                Overflow(iteration=k, kind="iteration"),
                StaticScale(128.0),
                Overflow(0, 128.0, 128.0, kind="restated"),
            ]
        state, readings = follow(rank0(*lines))
        assert state.skipped == 6
        assert holding(readings, "fixed at 128") == 1
        assert holding(readings, "being found") == 0
        assert not state.at_minimum
        summary = summarize(state)
        assert summary is not None
        assert summary.verdict == "non-finite gradients"

    def test_steps_skipped_in_silence_are_told_once_a_row(self) -> None:
        lines = rank0(StepReport(0, 0), *(StepReport(10 * k, 10 * k) for k in range(1, 6)))
        state, readings = follow(lines)
        assert len(warnings(readings)) == 1
        assert "no overflow line" in warnings(readings)[0]
        state, readings = follow(rank0(StepReport(60, 50), StepReport(70, 52)), state)
        assert len(warnings(readings)) == 1
        summary = summarize(state)
        assert summary is not None
        assert (summary.skipped, summary.verdict) == (52, "non-finite gradients")

    def test_a_resumed_run_brings_its_count_along(self) -> None:
        lines = rank0(StepReport(0, 0), StepReport(10050, 20), StepReport(10100, 20))
        state, readings = follow(lines)
        assert notices(readings) == []
        assert state.skipped == 20

    def test_an_earlier_checkpoint_is_no_news(self) -> None:
        lines = rank0(StepReport(100, 0), StepReport(200, 0), StepReport(150, 0))
        state, readings = follow(lines)
        assert notices(readings) == []
        assert state.steps == 200


def test_a_run_without_overflow_has_no_summary() -> None:
    state, readings = follow(rank0(StepReport(50, 0, (0.1,)), Throughput(60, 60, 1.0)))
    assert summarize(state) is None
    assert [reading.mark for reading in readings] == ["show", "show"]


def test_a_scale_that_only_grew_is_settled() -> None:
    summary = summarize(follow(rank0(ScaleGrown(65536.0, 131072.0)))[0])
    assert summary is not None
    assert (summary.verdict, summary.skipped, summary.last_scale) == ("settled", 0, 131072)


LINES: list[Line] = [
    Overflow(0, 4.0, 2.0),
    Overflow(0, float("inf"), float("nan")),
    Overflow(0, 0.0, 0.0),
    Overflow(0, 4.0, hysteresis_left=1, kind="hysteresis"),
    Overflow(iteration=3, kind="iteration"),
    Overflow(iteration=4, kind="iteration"),
    Overflow(0, 4.0, 2.0, kind="restated"),
    Overflow(0, kind="non-finite"),
    Overflow(0, kind="bare"),
    ScaleReduced(4.0, 2.0),
    ScaleGrown(2.0, float("inf")),
    ScaleSet(None, 8.0),
    StaticScale(128.0),
    MinimumScale(),
    HysteresisRestored(2),
    StepReport(5, 2),
    StepReport(6, 6),
    StepReport(400, 90),
    Throughput(3, 3, 1.0),
]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(LINES)), max_size=60),
    st.sampled_from([0.0, 1.0, 256.0]),
)
def test_any_series_is_survived_by_a_state_of_the_size_of_the_world(
    lines: list[tuple[int, Line]], minimum: float
) -> None:
    state, _ = follow(lines, LossScaleState(min_scale=minimum))
    summarize(state)
    held = [getattr(state, field.name) for field in fields(state) if field.name != "told"]
    assert not [value for value in held if isinstance(value, (list, dict, tuple))]
    assert len(state.told) <= 4
    assert len(state.said) <= 5
