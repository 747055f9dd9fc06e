"""Metrics in what DeepSpeed prints, as `deepspeed_lines.py` and `loss_scale.py` have read it."""

from __future__ import annotations

import math

from zlaunch.insight.deepspeed_lines import (
    Line,
    Overflow,
    PipelineStep,
    ScaleGrown,
    ScaleReduced,
    ScaleSet,
    StaticScale,
    StepReport,
    Throughput,
)
from zlaunch.insight.loss_scale_state import LossScaleState
from zlaunch.insight.metrics_told import Told, Value


def read_deepspeed(line: Line, before: LossScaleState, after: LossScaleState) -> Told | None:
    """What a line tells, given the states of the loss scale before and after it.

    A skipped step is told once, by the line that counted it there.
    """
    fields: dict[str, Value | None] = {}
    match line:
        case StepReport():
            rate = next(iter(line.lr), None)
            lr = None if rate is None or math.isnan(rate) else rate
            fields = {"step": line.step, "skipped": line.skipped, "lr": lr}
        case Throughput():
            fields = {"step": line.step, "samples_per_second": line.samples_per_second}
        case PipelineStep():
            fields = {
                "step": line.step,
                "loss": line.loss,
                "step_seconds": line.seconds,
                "samples_per_second": line.samples_per_second,
            }
        case Overflow():
            if after.skipped > before.skipped:
                scale = line.scale if line.reduced_to is None else line.reduced_to
                fields = {"overflow": True, "skipped": after.skipped, "loss_scale": scale}
        case ScaleReduced() | ScaleGrown() | ScaleSet():
            fields = {"loss_scale": line.after}
        case StaticScale():
            fields = {"loss_scale": line.scale}
        case _:
            pass
    told = {name: value for name, value in fields.items() if value is not None}
    return Told("deepspeed", told) if told else None
