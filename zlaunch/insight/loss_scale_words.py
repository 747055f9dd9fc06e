"""The sentences about the loss scale: notices while a run goes on, the verdict at its end."""

from __future__ import annotations

from math import ceil, isfinite, log2

from zlaunch.insight.loss_scale_state import (
    IN_A_ROW,
    LossScaleState,
    Notice,
    Summary,
    Verdict,
)

_ADVICE = (
    "try bf16 or a lower learning rate, check the data for NaN and inf,"
    " or set a longer loss_scale_window"
)
_NON_FINITE_ADVICE = "check the data for NaN and inf, and lower the learning rate"


def searching(state: LossScaleState) -> Notice:
    """Say once that overflows at the start are normal."""
    at = "" if state.first_scale is None else f" at {_number(state.first_scale)}"
    return Notice(
        "info",
        f"the loss scale is still being found (step skipped{at}); this is normal at the start,"
        " and further overflow lines are folded until a step succeeds",
    )


def settled(state: LossScaleState) -> Notice:
    """Say where the search ended."""
    at = "" if state.last_scale is None else f" at {_number(state.last_scale)}"
    return Notice("info", f"loss scale settled{at} after {_steps(state.skipped)}")


def streak(state: LossScaleState) -> Notice:
    """Warn that steps are skipped one after another."""
    count = f"{state.streak} steps in a row were skipped, with no good step seen in between"
    if not state.scaled:
        return Notice(
            "warning",
            f"{count}: the gradients are not finite, nothing is being learned;"
            f" {_NON_FINITE_ADVICE}",
        )
    if state.settled:
        at = "" if state.last_scale is None else f", loss scale now {_number(state.last_scale)}"
        return Notice("warning", f"{count}{at}: nothing is being learned; {_ADVICE}")
    return Notice(
        "warning",
        f"{count}{_way_down(state)}. This is normal only while the loss scale is still being found",
    )


def minimum(state: LossScaleState) -> Notice:
    """Warn that the scale cannot fall any further."""
    scale = state.min_scale if state.last_scale is None else state.last_scale
    return Notice(
        "warning",
        f"the loss scale fell to its minimum ({_number(scale)}), which cannot be lowered:"
        f" a step that overflows there teaches nothing; {_ADVICE}",
    )


def non_finite(state: LossScaleState) -> Notice:
    """Warn of a skipped step where no dynamic loss scale can put it right."""
    if state.last_scale is None:
        return Notice(
            "warning",
            "a step was skipped because its gradients were not finite (NaN or inf); no loss scale"
            f" is in use, so this does not settle by itself: {_NON_FINITE_ADVICE}",
        )
    return Notice(
        "warning",
        "a step was skipped because its gradients were not finite (NaN or inf); the loss scale is"
        f" fixed at {_number(state.last_scale)}, so this does not settle by itself: lower it or"
        " let it adapt (loss_scale 0)",
    )


def silent(state: LossScaleState, skipped: int) -> Notice:
    """Warn of skipped steps that only the engine's counter shows."""
    return Notice(
        "warning",
        f"{_steps(skipped)} up to step {state.steps} although DeepSpeed printed no overflow line:"
        f" the gradients are not finite; {_NON_FINITE_ADVICE}",
    )


def summarize(state: LossScaleState) -> Summary | None:
    """Give the verdict on what was seen so far; None if there was no sign of a loss scale."""
    if not state.skipped and state.first_scale is None and not state.gave_up:
        return None
    verdict = _verdict(state)
    return Summary(
        skipped=state.skipped,
        steps=state.steps,
        first_scale=state.first_scale,
        last_scale=state.last_scale,
        at_minimum=state.at_minimum,
        verdict=verdict,
        text=f"{_counts(state)}. {_meaning(state, verdict)}",
    )


def _verdict(state: LossScaleState) -> Verdict:
    if state.gave_up or (state.at_minimum and state.streak):
        return "at minimum"
    if not state.skipped:
        return "settled"
    if not state.scaled:
        return "non-finite gradients"
    if state.worst_streak >= IN_A_ROW or state.recent_share > 0.1:
        return "unstable"
    return "settled" if state.settled else "searching"


def _counts(state: LossScaleState) -> str:
    if state.gave_up and not state.skipped:
        return "DeepSpeed stopped the run, and printed no line for the steps it skipped before"
    known = state.steps is not None and state.steps >= state.skipped
    of = f" of {state.steps}" if known else ""
    plural = "step was" if (state.steps if known else state.skipped) == 1 else "steps were"
    text = f"{state.skipped}{of} {plural} skipped"
    if state.first_scale is None or state.last_scale is None or not state.scaled:
        return text
    first, last = _number(state.first_scale), _number(state.last_scale)
    return f"{text}, loss scale {first} at first and {last} at last"


def _meaning(state: LossScaleState, verdict: Verdict) -> str:
    if verdict == "at minimum":
        return f"The loss scale fell to its minimum and gradients still overflowed: {_ADVICE}."
    if verdict == "non-finite gradients":
        return f"Gradients were not finite: {_NON_FINITE_ADVICE}."
    if verdict == "unstable":
        if state.worst_streak >= IN_A_ROW:
            return (
                f"After the loss scale had settled, {state.worst_streak} steps in a row were"
                f" skipped: {_ADVICE}."
            )
        return f"{state.recent_share:.0%} of the last steps were skipped: {_ADVICE}."
    if verdict == "searching":
        return "The loss scale was still being found: no good step was reported."
    return "The loss scale settled."


def _way_down(state: LossScaleState) -> str:
    """Say how far the scale has come and how far it can still fall."""
    first, last = state.first_scale, state.last_scale
    if first is None or last is None:
        return ""
    text = f": the loss scale came from {_number(first)} to {_number(last)}"
    if not (state.min_scale > 0 and isfinite(last)):
        return text
    left = max(0, ceil(log2(last / state.min_scale)))
    return f"{text}, {left} halvings are left until its minimum {_number(state.min_scale)}"


def _steps(count: int) -> str:
    return f"{count} skipped {'step' if count == 1 else 'steps'}"


def _number(value: float) -> str:
    return str(int(value)) if isfinite(value) and value == int(value) else str(value)
