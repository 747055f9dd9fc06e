"""Lint: fp16 and bf16, what they need and what they exclude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zlaunch.dsconfig.finding import Finding, Level, Look
from zlaunch.dsconfig.versions import HALF_MODELS_SINCE, spelled


def check_precision_sections(look: Look) -> Iterator[Finding]:
    """Both at once, one that the devices lack, and settings that do not go together."""
    bf16 = "bf16" if "bf16" in look.config else "bfloat16"
    fp16_on, bf16_on = _on(look, "fp16"), _on(look, bf16)
    if fp16_on and bf16_on:
        text = f"fp16 and {bf16} are both on; DeepSpeed takes one of them"
        mend = "switch one off: bf16 needs no loss scale, fp16 runs on older GPUs"
        later = max(("fp16", bf16), key=lambda name: list(look.config).index(name))
        yield look.finds("error", "two-precisions", (later, "enabled"), text, mend)
        return
    yield from _devices(look, bf16, fp16_on, bf16_on)
    yield from _loss_scale(look, fp16_on)
    yield from _half_masters(look, bf16, fp16_on, bf16_on)
    yield from _autocast(look, bf16, fp16_on or bf16_on)
    yield from _types(look, fp16_on, bf16_on)


def is_on(value: Any) -> bool:
    """Whether DeepSpeed takes what is written under `enabled` for on."""
    if isinstance(value, str):
        return value.lower() in {"true", "yes", "on", "t", "y", "1"}
    return value is True or value == 1


def _on(look: Look, section: str) -> bool:
    value = look.get(section, "enabled")
    if value == "auto" and look.around.target == "plain":
        return look.schema.version < HALF_MODELS_SINCE  # there a text is as good as true
    return is_on(value)


def _devices(look: Look, bf16: str, fp16_on: bool, bf16_on: bool) -> Iterator[Finding]:
    if bf16_on and look.around.bf16 is False:
        text = f"{bf16} is on, and these devices cannot compute in it"
        mend = "use fp16: bf16 needs an Ampere GPU (compute capability 8.0) or newer"
        yield look.finds("error", "bf16-unsupported", (bf16, "enabled"), text, mend)
    if fp16_on and look.around.cpu and look.around.target == "plain" and not look.around.fp16:
        known = look.around.fp16 is False
        text = f"fp16 is on: DeepSpeed cannot train in it on {'these' if known else 'most'} CPUs"
        mend = "use bf16, or neither: fp16 needs CPUs with AVX512-FP16"
        level: Level = "error" if known else "warning"
        yield look.finds(level, "fp16-on-cpu", ("fp16", "enabled"), text, mend)


def _loss_scale(look: Look, on: bool) -> Iterator[Finding]:
    scale = look.number("fp16", "loss_scale")
    if not on or scale:
        return
    for name in ("loss_scale_window", "min_loss_scale"):
        value = look.number("fp16", name)
        if value is not None and value <= 0:
            text = f"fp16.{name} is {value}; a dynamic loss scale needs more than 0"
            yield look.finds("error", "out-of-range", ("fp16", name), text, "leave it out, or 1000")
    power = look.number("fp16", "initial_scale_power")
    if power is not None and power > 32:
        text = f"fp16.initial_scale_power is {power}: the loss scale begins at 2^{power}, and"
        text += f" about {int(power) - 16} steps are skipped until it fits"
        mend = "write the power of two, such as 16"
        yield look.finds("warning", "scale-too-high", ("fp16", "initial_scale_power"), text, mend)


def _half_masters(look: Look, bf16: str, fp16_on: bool, bf16_on: bool) -> Iterator[Finding]:
    stage = look.number("zero_optimization", "stage") or 0
    offload = look.get("zero_optimization", "offload_optimizer", "device")
    masters = {
        (bf16, "bf16_master_weights_and_grads"): bf16_on,
        ("fp16", "fp16_master_weights_and_grads"): fp16_on,
    }
    for path, on in masters.items():
        if not is_on(look.get(*path)):
            continue
        name = path[-1]
        if stage == 0:
            text = f"{name} works with ZeRO stage 1, 2 or 3 only"
            yield look.finds("error", "needs-stage", path, text, "choose a stage, or take it out")
        elif offload in (None, "none") and not is_on(look.get(bf16, "bf16_optimizer_states")):
            text = f"{name} needs the optimizer on the CPU"
            if path[0] != "fp16":
                text += ", or bf16_optimizer_states"
            mend = 'add "offload_optimizer": {"device": "cpu"} to zero_optimization'
            yield look.finds("error", "needs-offload", path, text, mend)
        elif not on:
            text = f"{name} has no effect while {path[0]} is off"
            yield look.finds("warning", "useless-key", path, text, f"switch {path[0]} on")
    states = (bf16, "bf16_optimizer_states")
    if is_on(look.get(*states)) and not is_on(look.get(bf16, "bf16_master_weights_and_grads")):
        text = "bf16_optimizer_states needs bf16_master_weights_and_grads"
        yield look.finds("error", "needs-key", states, text, "switch that on as well")


def _autocast(look: Look, bf16: str, half: bool) -> Iterator[Finding]:
    if half and is_on(look.get("torch_autocast", "enabled")):
        text = f"torch_autocast is on beside fp16 or {bf16}, which keep the model in half already"
        mend = "keep one of the two ways"
        path = ("torch_autocast", "enabled")
        yield look.finds("warning", "two-precisions", path, text, mend)


def _types(look: Look, fp16_on: bool, bf16_on: bool) -> Iterator[Finding]:
    """`data_types` against what is on; where `auto` decides later, nothing is said."""
    names = {"fp16": "fp16", "float16": "fp16", "half": "fp16", "bf16": "bf16", "bfloat16": "bf16"}
    names |= {"fp32": "fp32", "float32": "fp32", "float": "fp32", "int8": "int8"}
    keys = [("data_types", key) for key in ("grad_accum_dtype", "param_dtype", "buffer_dtype")]
    for path in (*keys, ("torch_autocast", "dtype")):
        value = look.get(*path)
        known = names.get(value.removeprefix("torch.")) if isinstance(value, str) else "no text"
        integers = known == "int8" and path[-1] != "buffer_dtype"  # nothing is computed in them
        if (known is None or integers) and value != "auto":
            text = f'{".".join(path)} is "{value}"; it can be fp32, fp16 or bf16'
            yield look.finds("error", "unknown-value", path, text, "write one of these")
    if any(look.get(name, "enabled") == "auto" for name in ("fp16", "bf16")):
        return
    model = "fp16" if fp16_on else "bf16" if bf16_on else "fp32"
    grads = names.get(str(look.get("data_types", "grad_accum_dtype")).removeprefix("torch."))
    if grads not in (None, model) and look.get("zero_optimization", "stage") in (None, 0):
        text = f"data_types.grad_accum_dtype {grads} with a model in {model} works with ZeRO only"
        mend = 'take it out, or choose a ZeRO stage: "zero_optimization": {"stage": 1}'
        yield look.finds("error", "needs-stage", ("data_types", "grad_accum_dtype"), text, mend)
    written = look.get("data_types", "param_dtype")
    wanted = names.get(str(written).removeprefix("torch."))
    if wanted is not None and wanted != model:
        version = spelled(look.schema.version)
        text = f"data_types.param_dtype is {wanted}, but the model is kept in {model}:"
        text += f" DeepSpeed {version} refuses the pair"
        mend = (
            f"switch {wanted} on, or leave param_dtype out" if wanted != "fp32" else "take it out"
        )
        yield look.finds("error", "two-precisions", ("data_types", "param_dtype"), text, mend)
