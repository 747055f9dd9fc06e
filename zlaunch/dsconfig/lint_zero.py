"""Lint: ZeRO's stage, offload and the keys that go with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zlaunch.dsconfig.finding import Finding, Level, Look, said
from zlaunch.dsconfig.lint_precision import is_on
from zlaunch.dsconfig.versions import CLIPPING_IS_ONE_SINCE

_ZERO = "zero_optimization"
_OLD_NAMES = {"offload_optimizer": "cpu_offload", "offload_param": "cpu_offload_param"}
_BUCKETS = ("reduce_bucket_size", "allgather_bucket_size")
# Switches of stage 3 whose names do not say so.
_STAGE_3_ONLY = (
    *("zero_quantized_weights", "zero_quantized_nontrainable_weights"),
    *("zero_quantized_gradients", "zero_hpz_partition_size"),
)


def check_zero(look: Look) -> Iterator[Finding]:
    """All of them; stage None is one that is filled in later."""
    zero = look.config.get(_ZERO)
    reader = {"hf": "the Trainer", "accelerate": "Accelerate"}.get(look.around.target)
    if zero is None and reader and look.document.complete:
        text = f"zero_optimization is not there, and {reader} refuses a config without it"
        yield look.finds("error", "needs-key", (), text, f'write "{_ZERO}": {{"stage": 2}}')
    if isinstance(zero, bool) and reader:
        text = f"zero_optimization is {said(zero)}, and {reader} fails where it is no section"
        mend = f'write {{"stage": {int(zero)}}}'
        yield look.finds("error", "wrong-type", (_ZERO,), text, mend)
    if not isinstance(zero, dict):
        return
    yield from _buckets(look)
    stage = _stage(look)
    if stage is None:
        return
    yield from _alignment(look, stage)
    yield from _offload(look, stage)
    yield from _useless(look, stage)
    yield from _refused(look, stage)
    yield from _partition(look)


def _stage(look: Look) -> int | None:
    written = look.get(_ZERO, "stage")
    if written == "auto" and look.around.target != "plain":
        return None
    stage = look.number(_ZERO, "stage")
    if stage is None and written in (None, "auto"):
        return 0
    return int(stage) if stage in (0, 1, 2, 3) else None


def _buckets(look: Look) -> Iterator[Finding]:
    for name in _BUCKETS:
        if look.get(_ZERO, name) is not None and look.number(_ZERO, name) == 0:
            text = f"{_ZERO}.{name} is 0: nothing fits into such a bucket"
            mend = "write the elements that one message holds, such as 200000000"
            yield look.finds("error", "zero-bucket", (_ZERO, name), text, mend)


def _alignment(look: Look, stage: int) -> Iterator[Finding]:
    size = look.number(_ZERO, "allgather_bucket_size")
    if stage in (1, 2) and size and size % 2:
        text = f"allgather_bucket_size is {int(size)}; ZeRO stage {stage} needs an even number"
        path = (_ZERO, "allgather_bucket_size")
        yield look.finds("error", "out-of-range", path, text, f"write {int(size) + 1}")


def offload_device(look: Look, section: str) -> str | None:
    """Where a section offloads to; None for nowhere."""
    device = look.get(_ZERO, section, "device")
    if device is None and is_on(look.get(_ZERO, _OLD_NAMES[section])):
        return "cpu"
    return device if device in ("cpu", "nvme") else None


def _offload(look: Look, stage: int) -> Iterator[Finding]:
    optimizer, param = (
        offload_device(look, "offload_optimizer"),
        offload_device(look, "offload_param"),
    )
    where = (_ZERO, "offload_optimizer", "device")
    if optimizer and stage == 0:
        text = f"offload_optimizer to {optimizer} works with ZeRO stage 1, 2 or 3; the stage is 0"
        level: Level = "warning" if look.around.cpu else "error"
        yield look.finds(level, "offload-needs-stage", where, text, 'write "stage": 2')
    elif optimizer == "nvme" and stage != 3:
        text = f"offload_optimizer to nvme works with ZeRO stage 3 only; the stage is {stage}"
        mend = 'write "stage": 3, or "device": "cpu"'
        yield look.finds("error", "offload-needs-stage", where, text, mend)
    if param and stage != 3:
        where = (_ZERO, "offload_param", "device")
        text = f"offload_param does nothing with ZeRO stage {stage}: parameters are split in 3 only"
        yield look.finds("warning", "offload-needs-stage", where, text, 'write "stage": 3')
    for section, device in (("offload_optimizer", optimizer), ("offload_param", param)):
        path = (_ZERO, section)
        if device == "nvme" and (section == "offload_optimizer" or stage == 3):
            if not look.get(*path, "nvme_path"):
                text = f"{section} goes to nvme, and nvme_path does not say where"
                mend = f'add "nvme_path": "/path" to {section}'
                yield look.finds("error", "offload-without-path", (*path, "device"), text, mend)
        elif look.get(*path, "nvme_path") and device is None and look.get(*path, "device") is None:
            text = f"{section} names an nvme_path and no device, so nothing is offloaded"
            mend = f'add "device": "nvme" to {section}'
            yield look.finds("warning", "useless-key", (*path, "nvme_path"), text, mend)
    yield from _offload_details(look, stage, optimizer)


def _offload_details(look: Look, stage: int, optimizer: str | None) -> Iterator[Finding]:
    path = (_ZERO, "offload_optimizer")
    ratio = look.number(*path, "ratio")
    if ratio is not None and ratio < 1 and stage != 3:
        text = f"offload_optimizer.ratio {ratio} works with ZeRO stage 3 only; the stage is {stage}"
        mend = "take it out, or write stage 3"
        yield look.finds("error", "offload-needs-stage", (*path, "ratio"), text, mend)
    if optimizer == "cpu" and any(is_on(look.get(*path, f"pipeline_{way}")) for way in _WAYS):
        name = next(f"pipeline_{way}" for way in _WAYS if is_on(look.get(*path, f"pipeline_{way}")))
        text = f"{name} is for nvme; with device cpu it does nothing"
        yield look.finds("note", "useless-key", (*path, name), text, "take it out")
    if is_on(look.get(*path, "super_offload")) and (optimizer != "cpu" or stage != 3):
        text = "super_offload works with ZeRO stage 3 and device cpu only, and does nothing here"
        mend = "take it out"
        yield look.finds("warning", "useless-key", (*path, "super_offload"), text, mend)


_WAYS = ("read", "write")


def _useless(look: Look, stage: int) -> Iterator[Finding]:
    for name, value in look.section(_ZERO).items():
        default = look.schema.field(_ZERO, name)
        same = default is not None and default.default == value
        three = name.startswith("stage3_") or name in _STAGE_3_ONLY
        if three and stage != 3 and value is not False and not same and value != "auto":
            text = f"{name} is read in ZeRO stage 3 only; the stage is {stage}"
            level: Level = "warning" if name in _STAGE_3_ONLY else "note"
            mend = "take it out, or write stage 3"
            yield look.finds(level, "useless-key", (_ZERO, name), text, mend, at_value=False)
    if is_on(look.get(_ZERO, "elastic_checkpoint")) and stage == 3:
        text = "elastic_checkpoint does nothing with ZeRO stage 3"
        mend = "use universal checkpoints"
        yield look.finds("warning", "useless-key", (_ZERO, "elastic_checkpoint"), text, mend)


def _refused(look: Look, stage: int) -> Iterator[Finding]:
    if is_on(look.get(_ZERO, "legacy_stage1")) and stage:
        text = "legacy_stage1 is refused by every DeepSpeed since 0.5.9"
        yield look.finds("error", "removed-key", (_ZERO, "legacy_stage1"), text, "take it out")
    yield from _grad_norm(look, stage)
    yield from _gradients(look, stage)


def _grad_norm(look: Look, stage: int) -> Iterator[Finding]:
    path = (_ZERO, "compute_grad_norm")
    off = look.get(*path)
    if off is None or off == "auto" or is_on(off) or look.schema.field(*path) is None:
        return
    if stage not in (1, 2):
        text = f"compute_grad_norm false works with ZeRO stage 1 and 2 only; the stage is {stage}"
        yield look.finds("error", "needs-stage", path, text, "take it out")
        return
    clipping: Any = look.config.get("gradient_clipping")
    if clipping is None and look.schema.version >= CLIPPING_IS_ONE_SINCE:
        clipping = 1.0
    if isinstance(clipping, (int, float)) and clipping > 0:
        text = f"compute_grad_norm false needs gradient_clipping 0, and that is {clipping}"
        yield look.finds("error", "needs-key", path, text, 'write "gradient_clipping": 0')
    if offload_device(look, "offload_optimizer") or look.get(_ZERO, "zenflow") is not None:
        text = "compute_grad_norm false works neither with offload_optimizer nor with zenflow"
        yield look.finds("error", "needs-key", path, text, "take it out")


def _gradients(look: Look, stage: int) -> Iterator[Finding]:
    operation = look.config.get("gradient_allreduce_op")
    if isinstance(operation, str) and operation.lower() == "sum":
        against = "ZeRO stage 3" if stage == 3 else ""
        against = "zenflow" if look.get(_ZERO, "zenflow") is not None else against
        against = "deepcompile" if is_on(look.get("compile", "deepcompile")) else against
        if against:
            text = f"gradient_allreduce_op sum does not work with {against}"
            yield look.finds("error", "needs-stage", ("gradient_allreduce_op",), text, "write mean")
    managed = look.config.get("managed_gradient_accumulation")
    if managed is False and stage < 2 and is_on(look.get(_ZERO, "overlap_comm")):
        text = f"managed_gradient_accumulation false and overlap_comm do not work in stage {stage}"
        path = ("managed_gradient_accumulation",)
        yield look.finds("error", "needs-stage", path, text, 'write "overlap_comm": false')
    if stage < 2 or look.get(_ZERO, "reduce_scatter") is False:
        return
    factor = look.config.get("gradient_predivide_factor", 1)
    if is_on(look.config.get("prescale_gradients")):
        text = f"prescale_gradients does not work with ZeRO stage {stage} and reduce_scatter"
        mend = 'take it out, or write "reduce_scatter": false'
        yield look.finds("error", "needs-stage", ("prescale_gradients",), text, mend)
    elif isinstance(factor, (int, float)) and factor != 1:
        text = f"gradient_predivide_factor {factor} does not work with ZeRO stage {stage}"
        mend = 'take it out, or write "reduce_scatter": false'
        yield look.finds("error", "needs-stage", ("gradient_predivide_factor",), text, mend)


def _partition(look: Look) -> Iterator[Finding]:
    size = look.number(_ZERO, "zero_hpz_partition_size")
    world = look.around.world_size
    if size and world and size > 1 and world % min(int(size), world):
        text = f"zero_hpz_partition_size {int(size)} does not divide the {world} ranks"
        mend = "write the number of GPUs of one host"
        path = (_ZERO, "zero_hpz_partition_size")
        yield look.finds("error", "out-of-range", path, text, mend)
