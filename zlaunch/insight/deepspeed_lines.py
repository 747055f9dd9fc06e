"""Read the lines that DeepSpeed prints about its loss scale and its steps.

One line of text in, one frozen record out, or None. The formats are those of DeepSpeed
0.3.11 to 0.19.8; each record's docstring names the versions that print it. A record's
prefix (time, level, file, line, function) changes from version to version, and a line may
sit behind a progress bar, a host name or a rank tag, so everything here searches for the
message itself and never anchors.

DeepSpeed 0.17.6 and newer print most of these only with `"log_level": "info"` in the
ds_config (0.19.3 and newer read that key) and a finite `steps_per_print`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import isnan
from typing import Literal, TypeAlias

from zlaunch.frozen import frozen

OverflowKind = Literal[
    "reduced", "hysteresis", "bare", "non-finite", "iteration", "restated", "detail"
]


@frozen
class Overflow:
    """A step whose gradients were not finite.

    kind         printed by                                              DeepSpeed
    reduced      ZeRO 1-3 fp16: the scale was halved                     0.3.11 and newer
    hysteresis   ZeRO 1-3 fp16: only the hysteresis was lowered          0.8.3 and newer
    bare         ZeRO, scaler of another type: says no scale             0.8.3 and newer
    non-finite   bf16, fp32 or a static scale under ZeRO                 0.19.8 and newer
    iteration    fp16 without ZeRO, every rank; a second record follows  all
    restated     fp16 without ZeRO, says `iteration` once more           up to 0.19.6
    detail       names the tensor; not a skipped step of its own         all
    """

    rank: int | None = None
    scale: float | None = None
    reduced_to: float | None = None
    iteration: int | None = None
    hysteresis_left: int | None = None
    kind: OverflowKind = "reduced"


@frozen
class ScaleReduced:
    """The record after an `iteration` overflow with a dynamic scale (all versions)."""

    before: float
    after: float


@frozen
class ScaleGrown:
    """A window of good steps doubled the scale; fp16 without ZeRO says so (all versions)."""

    before: float
    after: float


@frozen
class ScaleSet:
    """The script set the loss scale itself (all versions)."""

    before: float | None
    after: float


@frozen
class StaticScale:
    """The record after an `iteration` overflow with a static scale (all versions)."""

    scale: float


@frozen
class HysteresisRestored:
    """A good step, with consecutive_hysteresis on (ZeRO fp16, all versions)."""

    hysteresis: int


@frozen
class MinimumScale:
    """The exception with which ZeRO fp16 gives up at the minimum scale (all versions)."""


@frozen
class StepReport:
    """`step=N, skipped=K, lr=[...]`, from rank 0, each steps_per_print (all versions).

    `lr` has one item per parameter group; an item that cannot be read is nan.
    """

    step: int
    skipped: int
    lr: tuple[float, ...] = ()


@frozen
class Throughput:
    """A line of the throughput timer, from every rank.

    0.8.0 and newer name epoch, micro step and global step; 0.7 prints `A/B` and two
    speeds, 0.6 one speed and memory, older ones one speed only. Memory is in GB as
    DeepSpeed says it; `step` is None where only a micro step is printed.
    """

    step: int | None
    micro_step: int
    samples_per_second: float
    average: float | None = None
    memory: float | None = None
    max_memory: float | None = None


@frozen
class PipelineStep:
    """The pipeline engine's own step line, printed by global rank 0 (all versions)."""

    step: int
    loss: float
    seconds: float
    samples_per_second: float


Line: TypeAlias = (
    Overflow
    | ScaleReduced
    | ScaleGrown
    | ScaleSet
    | StaticScale
    | HysteresisRestored
    | MinimumScale
    | StepReport
    | Throughput
    | PipelineStep
)

MARKERS: tuple[bytes, ...] = (
    b"verflow",
    b"OVERFLOW!",
    b"loss scale",
    b"skipped=",
    b"amplesPerSec=",
    b"samples/sec:",
    b"Restoring hysteresis",
)

LONGEST_LINE = 65536
"""Only this many characters at the end of a longer line are looked at."""


def maybe_interesting(chunk: bytes) -> bool:
    """Say cheaply whether a chunk can hold a line that `parse_line` reads.

    A chunk must be made of whole lines: a marker cut in two is not seen.
    """
    for marker in MARKERS:  # noqa: SIM110 - any() is half as fast, and every byte passes here
        if marker in chunk:
            return True
    return False


def parse_line(text: str) -> Line | None:
    """Read one line as DeepSpeed printed it; None if it is something else."""
    text = text[-LONGEST_LINE:]
    if "\x1b" in text:
        text = _compiled(_ANSI).sub("", text)
    for marker, pattern, build in _FORMS:
        if marker in text:
            found = _compiled(pattern).search(text)
            if found is not None:
                return build(found)
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when the first line asks for it: all of them take longer than the plan of a run."""
    return re.compile(pattern, re.ASCII)


_ANSI = r"\x1b\[[0-9;?]*[A-Za-z]"
_LOG_RANK = r"\[[Rr]ank ?([0-9]{1,9})\]"
_CALL = r"[A-Za-z_][\w.]{0,40}\(([^(),]*)[^()]*\)"
_INT = r"([0-9]{1,18})(?![0-9])"
_NUMBER = r"(-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|inf|nan))"
_ATTEMPT = rf"Attempted loss scale: {_NUMBER}, reducing to {_NUMBER}"
_HYSTERESIS = (
    rf"Attempted loss scale: {_NUMBER}, but hysteresis is {_INT}\."
    rf" Reducing hysteresis to {_INT}"
)


def _log_rank(found: re.Match[str]) -> int | None:
    """Give the rank that a `[Rank N]` or `[rankN]` tag before the message names."""
    tags = _compiled(_LOG_RANK).findall(found.string, 0, found.start())
    return int(tags[-1]) if tags else None


def _loud_overflow(found: re.Match[str]) -> Overflow:
    rank = _log_rank(found) if found[1] is None else int(found[1])
    attempt = _compiled(_ATTEMPT).match(found.string, found.end())
    if attempt:
        return Overflow(rank, float(attempt[1]), float(attempt[2]))
    lowered = _compiled(_HYSTERESIS).match(found.string, found.end())
    if lowered:
        left = int(lowered[3])
        return Overflow(rank, float(lowered[1]), hysteresis_left=left, kind="hysteresis")
    non_finite = found.string.startswith("Gradients are non-finite", found.end())
    return Overflow(rank, kind="non-finite" if non_finite else "bare")


def _restated(found: re.Match[str]) -> Overflow:
    attempt = _compiled(_ATTEMPT).match(found.string, found.end())
    before, after = (float(attempt[1]), float(attempt[2])) if attempt else (None, None)
    return Overflow(_log_rank(found), before, after, kind="restated")


def _iteration(found: re.Match[str]) -> Overflow:
    return Overflow(_log_rank(found), iteration=int(found[1]), kind="iteration")


def _scale_set(found: re.Match[str]) -> ScaleSet:
    before = _float(found[1])
    return ScaleSet(None if isnan(before) else before, float(found[2]))


def _throughput(found: re.Match[str]) -> Throughput:
    micro, step, old, average, current, only, memory, most = found.groups()
    return Throughput(
        step=int(step) if step else None,
        micro_step=int(micro or old),
        samples_per_second=float(current or only),
        average=float(average) if average else None,
        memory=float(memory) if memory else None,
        max_memory=float(most) if most else None,
    )


def _step_report(found: re.Match[str]) -> StepReport:
    items = _compiled(_CALL).sub(r"\1", found[3] or "").split(",")
    rates = tuple(_float(item) for item in items if item.strip())
    return StepReport(int(found[1]), int(found[2]), rates)


def _float(text: str) -> float:
    """Read a number as Python prints it; what is none becomes nan."""
    try:
        return float(_compiled(_CALL).sub(r"\1", text))
    except ValueError:
        return float("nan")


_Form = tuple[str, str, Callable[[re.Match[str]], Line]]
_FROM_TO = rf"dynamic loss scale from {_NUMBER} to {_NUMBER}"
_FORMS: tuple[_Form, ...] = (
    ("OVERFLOW!", rf"OVERFLOW! (?:Rank {_INT} )?Skipping step\. ?", _loud_overflow),
    ("Overflow detected", r"Overflow detected\. Skipping step\. ?", _restated),
    ("scale overflow!", r"fp16 dynamic loss scale overflow! Skipping step\. ?", _restated),
    ("Grad overflow on", rf"Grad overflow on iteration:? {_INT}", _iteration),
    (
        "detected overflow",
        rf"\brank {_INT} detected overflow\b",
        lambda m: Overflow(int(m[1]), kind="detail"),
    ),
    ("already at", r"Current loss scale already at minimum", lambda _: MinimumScale()),
    ("Reducing", rf"Reducing {_FROM_TO}", lambda m: ScaleReduced(float(m[1]), float(m[2]))),
    ("Increasing", rf"Increasing {_FROM_TO}", lambda m: ScaleGrown(float(m[1]), float(m[2]))),
    ("Using", rf"Using static loss scale of:? {_NUMBER}", lambda m: StaticScale(float(m[1]))),
    (
        "setting loss scale",
        rf"setting loss scale from (\S{{1,40}}) -> (?:tensor\()?{_NUMBER}",
        _scale_set,
    ),
    (
        "Restoring hysteresis",
        rf"Restoring hysteresis to {_INT}",
        lambda m: HysteresisRestored(int(m[1])),
    ),
    ("skipped=", rf"\bstep={_INT}, skipped={_INT}(?:, lr=\[([^\]]*))?", _step_report),
    (
        "amplesPerSec=",
        (
            rf"(?:micro_step={_INT}/global_step={_INT}|\b[0-9]{{1,18}}/{_INT}), "
            rf"(?:RunningAvgSamplesPerSec={_NUMBER}, CurrSamplesPerSec={_NUMBER}"
            rf"|SamplesPerSec={_NUMBER})"
            rf"(?:, MemAllocated={_NUMBER}GB, MaxMemAllocated={_NUMBER}GB)?"
        ),
        _throughput,
    ),
    (
        "samples/sec:",
        (
            rf"\bsteps: {_INT} loss: {_NUMBER} .{{0,500}}?"
            rf"iter time \(s\): {_NUMBER} samples/sec: {_NUMBER}"
        ),
        lambda m: PipelineStep(int(m[1]), float(m[2]), float(m[3]), float(m[4])),
    ),
)
