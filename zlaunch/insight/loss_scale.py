"""Watch the loss scale of a run: fold the search at the start, warn when it does not end.

`observe` is a pure step from one state and one line to the next state, with what the
console should do with the line and what it should say besides. `summarize` gives the
verdict at any time.

A skipped step is counted once, although without ZeRO every rank reports it, and up to
DeepSpeed 0.19.6 twice: all ranks skip the same steps, so what a rank reports is new where no
other has reported as many before. A rank may be read far behind another; what it says of steps
that were counted already is no news. The engine's `skipped=` counter wins where it is larger;
steps that are skipped without a line (BF16_Optimizer in 0.19.8) show there alone.
"""

from __future__ import annotations

from dataclasses import replace

from zlaunch.insight import loss_scale_words as words
from zlaunch.insight.deepspeed_lines import (
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
)
from zlaunch.insight.loss_scale_state import (
    IN_A_ROW,
    WINDOW,
    Count,
    LossScaleState,
    Mark,
    Notice,
    Reading,
    Summary,
)
from zlaunch.insight.loss_scale_words import summarize

__all__ = ["LossScaleState", "Notice", "Reading", "Summary", "observe", "summarize"]

_Step = tuple[LossScaleState, tuple[Notice, ...]]
_BETWEEN_OVERFLOWS = (ScaleReduced, StaticScale, ScaleGrown, HysteresisRestored)


def observe(state: LossScaleState, rank: int, line: Line) -> tuple[LossScaleState, Reading]:
    """Take in one line; `rank` is the worker that printed it, whatever the line says."""
    stale = isinstance(line, _BETWEEN_OVERFLOWS) and not state.leads(rank)
    state, notices = (state, ()) if stale else _taken_in(state, rank, line)
    return state, Reading(_mark(state, rank, line), notices)


def _taken_in(state: LossScaleState, rank: int, line: Line) -> _Step:
    match line:
        case Overflow():
            return _overflow(state, rank, line)
        case ScaleReduced() | StaticScale():
            return _follow_up(state, line)
        case MinimumScale():
            return _warn(replace(state, gave_up=True))
        case StepReport():
            return _report(state, rank, line)
        case ScaleGrown():
            state, notices = _good_step(state.scales(line.before, None))
            return state.scales(line.before, line.after), notices
        case HysteresisRestored():
            return _good_step(state)
        case ScaleSet():
            return state.scales(line.before, None).scales(line.after, None), ()
        case Throughput() | PipelineStep():
            return state.reached(line.step), ()


def _mark(state: LossScaleState, rank: int, line: Line) -> Mark:
    if isinstance(line, MinimumScale):
        return "mark"
    if isinstance(line, (Overflow, ScaleReduced, StaticScale)):
        told = state.told.get(rank, 0) + (isinstance(line, Overflow) and line.kind == "detail")
        searching = not state.settled or told <= state.settled_after
        return "fold" if state.scaled and searching else "mark"
    return "show"


def _overflow(state: LossScaleState, rank: int, line: Overflow) -> _Step:
    if line.kind == "detail":
        return state, ()
    if line.kind == "restated" and state.last_iteration is not None:
        # The step was counted when its `Grad overflow on iteration` came, just before.
        if state.leads(rank) and state.awaiting and line.scale is not None:
            return _follow_up(state, ScaleReduced(line.scale, line.reduced_to or line.scale))
        return state, ()
    count = _reported(state, rank, line)
    new = count > state.most_told
    settling: tuple[Notice, ...] = ()
    if new and _good_step_before(state, line):
        state, settling = _good_step(state)
    state = replace(state, told={**state.told, rank: count})
    if not new:
        return state, ()
    waited = state.awaiting
    state = _count(state, line)
    if line.kind == "iteration" and not waited:
        return state, settling  # its second record tells which scale, and whether it is static
    state, warnings = _warn(state)
    return state, settling + warnings


def _reported(state: LossScaleState, rank: int, line: Overflow) -> int:
    """How many skipped steps this rank has told of by now."""
    last = state.last_iteration
    if line.iteration is not None and last is not None and line.iteration >= last:
        # The iteration says which step it is, although the rank may not have told of all before.
        return state.most_told + (line.iteration > last)
    return state.told.get(rank, 0) + 1


def _good_step_before(state: LossScaleState, line: Overflow) -> bool:
    """Say whether a good step must lie between this overflow and what was seen before."""
    if line.iteration is not None and state.last_iteration is not None:
        return line.iteration - state.last_iteration > 1
    left, known = line.hysteresis_left, state.hysteresis_left
    if left is not None and known is not None and left >= known:
        return True  # it was restored, which takes a good step
    reached = state.initial_scale if state.last_scale is None else state.last_scale
    return line.scale is not None and reached is not None and line.scale > reached


def _count(state: LossScaleState, line: Overflow) -> LossScaleState:
    left = 1 if line.kind == "reduced" else line.hysteresis_left
    counted = replace(
        state.scales(line.scale, line.reduced_to),
        scaled=state.scaled and line.kind != "non-finite",
        skipped=state.skipped + 1,
        awaiting=line.kind == "iteration",
        last_iteration=state.last_iteration if line.iteration is None else line.iteration,
        hysteresis_left=state.hysteresis_left if left is None else left,
    )
    return counted.lengthened(1)


def _follow_up(state: LossScaleState, line: ScaleReduced | StaticScale) -> _Step:
    """Take in the second record of an `iteration` overflow, which was counted at its first."""
    waited = state.awaiting
    state = replace(state, awaiting=False)
    if isinstance(line, StaticScale):
        state = replace(state.scales(line.scale, None), scaled=False)
    elif waited:
        state = state.scales(line.before, line.after)
    return _warn(state) if waited else (state, ())


def _good_step(state: LossScaleState) -> _Step:
    """End a row of skipped steps, and the search if it was still on."""
    found = state.scaled and not state.settled and "search" in state.said
    notices = (words.settled(state),) if found else ()
    after = state.settled_after if state.settled else state.most_told
    said = state.said - {"streak"}
    state = replace(state, settled=True, settled_after=after, streak=0, stuck=0, said=said)
    return state, notices


def _report(state: LossScaleState, rank: int, line: StepReport) -> _Step:
    """Compare the engine's own count with what its lines have shown."""
    before = state.report or Count()
    steps, skips = line.step - before.step, line.skipped - before.skipped
    silent = line.skipped - state.skipped
    state = replace(
        state.reached(line.step),
        report=Count(line.step, line.skipped),
        skipped=max(state.skipped, line.skipped),
    )
    if steps < 0 or skips < 0:  # an earlier checkpoint was loaded
        return replace(state, anchor=None, next_anchor=None), ()
    stale = silent < 0 and not state.leads(rank)
    state, notices = _good_step(state) if steps > skips and not stale else (state, ())
    state = _anchored(state)
    # A run that goes on from a checkpoint brings its count along; that is no news.
    if silent > 0 and (before.step > 0 or line.step == line.skipped):
        state, warnings = _silent(state, silent, in_a_row=steps == skips)
        return state, notices + warnings
    return (replace(state, said=state.said - {"silent"}) if steps else state), notices


def _silent(state: LossScaleState, skipped: int, *, in_a_row: bool) -> _Step:
    """Take in skipped steps that no line told of: BF16_Optimizer (0.19.8) prints none."""
    state = replace(state, scaled=state.scaled and state.first_scale is not None)
    if in_a_row:
        state = state.lengthened(skipped)
    notices: tuple[Notice, ...] = ()
    if "silent" not in state.said:
        notices = (words.silent(state, skipped),)
        state = state.saying("silent", "non-finite")
        if state.streak >= IN_A_ROW:
            state = state.saying("streak")
    state, warnings = _warn(state)
    return state, notices + warnings


def _anchored(state: LossScaleState) -> LossScaleState:
    """Move the point from which the share of skipped steps is measured."""
    report = state.report
    if not state.settled or report is None:
        return state
    if state.next_anchor is None:
        return replace(state, anchor=report, next_anchor=report)
    if report.step - state.next_anchor.step >= WINDOW:
        return replace(state, anchor=state.next_anchor, next_anchor=report)
    return state


def _warn(state: LossScaleState) -> _Step:
    """Say what a newly counted overflow makes worth saying, each thing once."""
    notices: list[Notice] = []
    if not state.scaled and "non-finite" not in state.said:
        notices.append(words.non_finite(state))
        state = state.saying("non-finite")
    if state.scaled and state.skipped and not state.settled and "search" not in state.said:
        notices.append(words.searching(state))
        state = state.saying("search")
    if state.at_minimum and "minimum" not in state.said:
        notices.append(words.minimum(state))
        state = state.saying("minimum", "streak")
    if state.streak >= IN_A_ROW and "streak" not in state.said:
        notices.append(words.streak(state))
        state = state.saying("streak")
    return state, tuple(notices)
