from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.insight.deepspeed_lines import (
    LONGEST_LINE,
    HysteresisRestored,
    Line,
    MinimumScale,
    Overflow,
    PipelineStep,
    ScaleGrown,
    ScaleReduced,
    ScaleSet,
    StaticScale,
    StepReport,
    Throughput,
    maybe_interesting,
    parse_line,
)

RECORDINGS = Path(__file__).parents[1] / "recordings"
LOG = "[2026-01-02 03:04:05,678] [INFO] [loss_scaler.py:273:update_scale] "
OLD = "[2021-03-04 05:06:07,890] [INFO] [stage2.py:1340:step] "

AT_MINIMUM = "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."

FORMS: dict[str, tuple[str, Line]] = {
    "O1": (
        LOG + "[deepspeed] OVERFLOW! Rank 0 Skipping step. "
        "Attempted loss scale: 65536, reducing to 32768",
        Overflow(0, 65536.0, 32768.0, kind="reduced"),
    ),
    "O2": (
        LOG + "[deepspeed] OVERFLOW! Rank 0 Skipping step. "
        "Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1",
        Overflow(0, 65536.0, hysteresis_left=1, kind="hysteresis"),
    ),
    "O3": (
        LOG + "[deepspeed] OVERFLOW! Rank 3 Skipping step.",
        Overflow(3, kind="bare"),
    ),
    "O4": (
        LOG.replace("INFO", "WARNING") + "[Rank 0] [deepspeed] "
        "OVERFLOW! Skipping step. Gradients are non-finite, weights were not updated.",
        Overflow(0, kind="non-finite"),
    ),
    "O5": ("Grad overflow on iteration 17", Overflow(iteration=17, kind="iteration")),
    "O5 record": (
        LOG + "Reducing dynamic loss scale from 65536.0 to 32768.0",
        ScaleReduced(65536.0, 32768.0),
    ),
    "O6": (LOG + "Grad overflow on iteration: 17", Overflow(iteration=17, kind="iteration")),
    "O7 fused": (LOG + "Using static loss scale of: 128.0", StaticScale(128.0)),
    "O7 unfused": (LOG + "Using static loss scale of 128", StaticScale(128.0)),
    "O8": (
        LOG + "[Rank 0] Overflow detected. Skipping step. "
        "Attempted loss scale: 65536.0, reducing to 32768.0",
        Overflow(0, 65536.0, 32768.0, kind="restated"),
    ),
    "O9": (
        LOG + "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. "
        "Attempted loss scale: 65536.0, reducing to 32768.0",
        Overflow(None, 65536.0, 32768.0, kind="restated"),
    ),
    "O10 deepscale": (
        OLD + "[deepscale] OVERFLOW! Rank 0 Skipping step. "
        "Attempted loss scale: 4294967296, reducing to 4294967296",
        Overflow(0, 4294967296.0, 4294967296.0, kind="reduced"),
    ),
    "O10 deepspeed": (
        OLD + "[deepspeed] OVERFLOW! Rank 0 Skipping step. "
        "Attempted loss scale: 128.0, reducing to 64.0",
        Overflow(0, 128.0, 64.0, kind="reduced"),
    ),
    "O12": (
        LOG + "rank 5 detected overflow inf in tensor 0:17 shape torch.Size([1024, 4])",
        Overflow(5, kind="detail"),
    ),
    "G1": (
        LOG + "Increasing dynamic loss scale from 32768.0 to 65536.0",
        ScaleGrown(32768.0, 65536.0),
    ),
    "G2": (
        LOG + "Consecutive hysteresis is enabled. Restoring hysteresis to 2",
        HysteresisRestored(2),
    ),
    "G3": (LOG + "[deepspeed] setting loss scale from 1.0 -> 128", ScaleSet(1.0, 128.0)),
    "G3 first": (LOG + "[deepspeed] setting loss scale from None -> 64.0", ScaleSet(None, 64.0)),
    "F1": (
        "[rank1]: Exception: " + AT_MINIMUM,
        MinimumScale(),
    ),
    "P1": (
        LOG + "[Rank 0] step=50, skipped=2, lr=[5e-05, 0.001], mom=[(0.9, 0.999), (0.9, 0.999)]",
        StepReport(50, 2, (5e-05, 0.001)),
    ),
    "P1 lists": (
        LOG + "[Rank 0] step=50, skipped=0, lr=[0.1], mom=[[0.9, 0.999]]",
        StepReport(50, 0, (0.1,)),
    ),
    "P1 empty": (LOG + "[Rank 0] step=0, skipped=0, lr=[], mom=[]", StepReport(0, 0)),
    "P1 numpy": (
        LOG + "[Rank 0] step=9, skipped=1, lr=[np.float64(0.25), tensor(0.5, device='cuda:0'), "
        "inf], mom=[]",
        StepReport(9, 1, (0.25, 0.5, math.inf)),
    ),
    "P2": (
        LOG + "epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=271.04, "
        "CurrSamplesPerSec=38.45, MemAllocated=0.06GB, MaxMemAllocated=1.0GB",
        Throughput(10, 40, 38.45, 271.04, 0.06, 1.0),
    ),
    "P2 0.7": (
        LOG + "0/40, RunningAvgSamplesPerSec=271.04, CurrSamplesPerSec=38.45, "
        "MemAllocated=0.06GB, MaxMemAllocated=1.0GB",
        Throughput(None, 40, 38.45, 271.04, 0.06, 1.0),
    ),
    "P2 0.6": (
        LOG + "0/40, SamplesPerSec=38.45, MemAllocated=0.06GB, MaxMemAllocated=1.0GB",
        Throughput(None, 40, 38.45, None, 0.06, 1.0),
    ),
    "P2 older": (LOG + "0/40, SamplesPerSec=38.45", Throughput(None, 40, 38.45)),
    "P6": (
        "steps: 20 loss: 3.4567 iter time (s): 0.123 samples/sec: 65.041",
        PipelineStep(20, 3.4567, 0.123, 65.041),
    ),
    "P6 more losses": (
        "steps: 20 loss: nan aux: 0.0100 z: 1.0000 iter time (s): 0.123 samples/sec: 65.041",
        PipelineStep(20, math.nan, 0.123, 65.041),
    ),
}


def same(left: object, right: object) -> bool:
    return repr(left) == repr(right)  # nan is not equal to itself


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read(form: str) -> None:
    text, expected = FORMS[form]
    assert same(parse_line(text), expected)
    assert maybe_interesting(text.encode())


PREFIXES = {
    "progress bar": "  3%|3         | 31/1000 [01:06<34:31,  2.14s/it]",
    "host": "worker-1: ",
    "torchrun": "[default0]:",
    "rank": "7 | ",
    "colour": "\x1b[32m",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("form", FORMS)
def test_what_stands_around_a_message_does_not_matter(form: str, prefix: str) -> None:
    text, expected = FORMS[form]
    assert same(parse_line(prefix + text + "\x1b[0m\r\n"), expected)


def test_the_rank_is_taken_from_a_tag_of_torch() -> None:
    found = parse_line("[rank1]: Grad overflow on iteration 4")
    assert found == Overflow(1, iteration=4, kind="iteration")


def test_a_rank_before_init_is_unknown() -> None:
    found = parse_line("[Rank -1] [deepspeed] OVERFLOW! Skipping step. Gradients are non-finite,")
    assert found == Overflow(None, kind="non-finite")


def test_the_message_may_begin_with_a_newline() -> None:
    assert parse_line(LOG + "\nGrad overflow on iteration 0") == Overflow(
        iteration=0, kind="iteration"
    )


def test_an_unreadable_rate_keeps_its_place() -> None:
    found = parse_line("step=1, skipped=0, lr=[None, 0.5, nan], mom=[]")
    assert isinstance(found, StepReport)
    assert math.isnan(found.lr[0])
    assert found.lr[1] == 0.5
    assert math.isnan(found.lr[2])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No Grad overflow for 1000 iterations",
        "stack overflow! Skipping stepwise",
        "RuntimeError: value cannot be converted to type int32_t without overflow",
        "{'loss': nan, 'grad_norm': inf, 'step': 3}",
        "global_step=5, skipped=2",
        "step=" + "9" * 5000 + ", skipped=0, lr=[0.1]",
        "loss scale: 65536",
        "epoch=0/micro_step=4/global_step=4, vm %: 10.0, swap %: 0.0",
    ],
)
def test_other_text_is_nothing(text: str) -> None:
    assert parse_line(text) is None


def test_the_end_of_a_very_long_line_is_read() -> None:
    bar = "|" * (3 * LONGEST_LINE)
    assert parse_line(bar + FORMS["P1"][0]) == FORMS["P1"][1]


PIECES = [text for text, _ in FORMS.values()]
PIECES += ["lr=[", "a(" * 50, "steps: 1 loss: 2 ", "\x1b[", "9" * 30, "step=1, skipped=", "[Rank "]


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    parse_line(text)


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12))
def test_any_mixture_is_survived_and_never_missed_by_the_filter(pieces: list[str]) -> None:
    text = "".join(pieces)
    if parse_line(text) is not None and "\x1b" not in text:
        assert maybe_interesting(text.encode(errors="surrogatepass"))


@pytest.mark.parametrize("piece", PIECES)
def test_a_line_of_repeated_pieces_takes_no_time(piece: str) -> None:
    parse_line("step=1, skipped=0, lr=[" + piece * (LONGEST_LINE // len(piece)))
    parse_line(piece * (LONGEST_LINE // len(piece)) + "samples/sec:")


def test_the_filter_passes_what_recordings_hold() -> None:
    for path in sorted(RECORDINGS.glob("*.log")):
        for line in path.read_bytes().splitlines():
            if parse_line(line.decode(errors="replace")) is not None:
                assert maybe_interesting(line)
