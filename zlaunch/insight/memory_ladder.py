"""The ways out of GPU memory, the cheapest first, as options for the next run.

The global batch stays what it was: a smaller micro batch comes with more accumulation.
"""

from __future__ import annotations

from zlaunch.insight.cause_table import setting
from zlaunch.insight.evidence import Evidence

# What takes less GPU memory than a recipe and costs the least speed; docs/memory.md.
_NEXT = {
    "ddp": ("zero2", "zero3"),
    "zero1": ("zero2", "zero3"),
    "zero2": ("zero3", "zero2-offload"),
    "zero3": ("zero3-offload",),
    "zero2-offload": ("zero3-offload",),
}
_GIB = {"B": 2**-30, "bytes": 2**-30, "KiB": 2**-20, "MiB": 2**-10, "GiB": 1.0, "TiB": 1024.0}


def gib(size: str) -> float:
    """Read `19.29 GiB` or `512.00 MiB` as GiB."""
    number, _, unit = size.partition(" ")
    try:
        return float(number) * _GIB.get(unit, 0.0)
    except ValueError:
        return 0.0


def ladder(evidence: Evidence) -> tuple[str, ...]:
    """What to try, given the ds_config and the recipe in use."""
    steps = [_smaller_micro_batch(evidence), _CHECKPOINTING, *_next_recipes(evidence)]
    return (*filter(None, steps), "`zlaunch plan` says which recipes fit the model")


_CHECKPOINTING = (
    "activation checkpointing: model.gradient_checkpointing_enable() of Transformers "
    "(gradient_checkpointing=True for the Trainer), else torch.utils.checkpoint"
)


def _smaller_micro_batch(evidence: Evidence) -> str:
    micro = setting(evidence.config, "train_micro_batch_size_per_gpu")
    steps = setting(evidence.config, "gradient_accumulation_steps")
    if not isinstance(micro, int) or not isinstance(steps, int):
        return "a smaller micro batch, with as much more gradient accumulation"
    if micro <= 1:
        return ""  # the micro batch cannot be smaller; a shorter sequence is the script's
    part = next(part for part in range(2, micro + 1) if micro % part == 0)
    return (
        f"--set train_micro_batch_size_per_gpu={micro // part} "
        f"--set gradient_accumulation_steps={steps * part}: the same global batch"
    )


def _next_recipes(evidence: Evidence) -> list[str]:
    own = evidence.recipe or ""
    if own in _NEXT:
        return [f"--recipe {name}" for name in _NEXT[own]]
    if own and evidence.config is None:
        return []
    return _next_settings(evidence)


def _next_settings(evidence: Evidence) -> list[str]:
    """For a ds_config of the user's own: what to set in it."""
    if evidence.config is None:
        return ["the next ZeRO stage (--recipe zero2, zero3), then offload (zero3-offload)"]
    stage = setting(evidence.config, "zero_optimization", "stage") or 0
    optimizer = setting(evidence.config, "zero_optimization", "offload_optimizer", "device")
    parameters = setting(evidence.config, "zero_optimization", "offload_param", "device")
    steps = []
    if isinstance(stage, int) and stage < 2:
        steps.append("--set zero_optimization.stage=2")
    if isinstance(stage, int) and stage < 3:
        steps.append("--set zero_optimization.stage=3")
    if optimizer in (None, "none"):
        steps.append("--set zero_optimization.offload_optimizer.device=cpu")
    if stage == 3 and parameters in (None, "none"):
        steps.append("--set zero_optimization.offload_param.device=cpu")
    return steps
