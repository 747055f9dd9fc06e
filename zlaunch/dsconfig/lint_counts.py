"""Lint: numbers that DeepSpeed takes when it reads them, and cannot work with later.

Zero and negative numbers, mostly: a division, a queue without places, a step that never comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zlaunch.dsconfig.finding import Finding, Level, Look, said
from zlaunch.dsconfig.lint_precision import is_on

Path = tuple[str, ...]

_ZERO = "zero_optimization"
_ADAM = frozenset({"adam", "adamw"})
# ZeRO multiplies the loss by an integer, the optimizer of stage 0 by a float.
_SCALE_WITH_ZERO, _SCALE_OF_FLOATS = 63, 1023
_ADAM_STATES = 3  # parameter and two moments; a gradient that is swapped too is the fourth


def check_counts(look: Look) -> Iterator[Finding]:
    """All of them; where the feature is off, a number that it could not use is no error."""
    yield from _steps(look)
    yield from _gradients(look)
    yield from _loss_scale(look)
    yield from _disk_queue(look)
    yield from _buffers(look)
    yield from _profiler(look)
    yield from _activations(look)
    yield from _workers(look)
    yield from _writer(look)
    yield from _mesh(look)
    yield from _tensor_parallel(look)
    yield from _zenflow(look)
    yield from _autotuning(look)
    yield from _direct_storage(look)


def _written(look: Look, *path: str) -> int | float | None:
    """The number that is written at a path; None where none is, or what is said already."""
    return look.number(*path) if look.get(*path) not in (None, "auto") else None


def _bad(look: Look, path: Path, text: str, mend: str, level: Level = "error") -> Iterator[Finding]:
    text = f"{'.'.join(path)} is {said(look.get(*path))}{text}"
    yield look.finds(level, "out-of-range", path, text, mend)


def _steps(look: Look) -> Iterator[Finding]:
    path = ("steps_per_print",)
    steps = _written(look, *path)
    if steps is None or steps > 0 or look.around.target != "plain":
        return  # Accelerate, and the Trainer with it, writes its own
    if steps == 0:
        yield from _bad(look, path, ", and DeepSpeed divides by it", "leave it out for no lines")
    else:
        text = f": DeepSpeed takes it for {said(-steps)}"
        yield from _bad(look, path, text, "leave it out for no lines", "warning")


def _gradients(look: Look) -> Iterator[Finding]:
    path: Path = ("gradient_clipping",)
    clipping = _written(look, *path)
    if clipping is not None and clipping < 0:
        text = ": DeepSpeed clips above 0 only, so nothing is clipped"
        yield from _bad(look, path, text, "write 0 for none, or the largest norm", "warning")
    path = ("gradient_predivide_factor",)
    if _written(look, *path) == 0 and not is_on(look.config.get("prescale_gradients")):
        yield from _bad(look, path, ", and DeepSpeed divides by it", "leave it out, or write 1")


def _loss_scale(look: Look) -> Iterator[Finding]:
    if not is_on(look.get("fp16", "enabled")) or look.number("fp16", "loss_scale"):
        return
    path: Path = ("fp16", "hysteresis")
    count = _written(look, *path)
    if count is not None and count < 1:
        text = ": the loss scale is never lowered, and every step that overflows is skipped"
        yield from _bad(look, path, text, "write 1 or more; 2 is the default")
    path = ("fp16", "initial_scale_power")
    power = _written(look, *path)
    largest = _SCALE_WITH_ZERO if look.number(_ZERO, "stage") else _SCALE_OF_FLOATS
    if power is not None and power > largest:
        text = f": torch cannot multiply by 2^{said(power)}, so the first step fails"
        yield from _bad(look, path, text, "write the power of two, such as 16")


def _goes_to_disk(look: Look) -> bool:
    offloads = ("offload_optimizer", "offload_param")
    fast = str(look.get("checkpoint", "writer", "type")).upper() == "FAST"
    return fast or any(look.get(_ZERO, name, "device") == "nvme" for name in offloads)


def _disk_queue(look: Look) -> Iterator[Finding]:
    for name in ("block_size", "queue_depth", "intra_op_parallelism", "thread_count"):
        path = ("aio", name)
        number = _written(look, *path)
        if number is None or number >= 1 or look.schema.field(*path) is None:
            continue
        if _goes_to_disk(look):
            text = "; reading and writing NVMe needs at least 1"
            yield from _bad(look, path, text, "leave it out for the default")
        else:
            text = "; it would fail once something goes to NVMe"
            yield from _bad(look, path, text, "leave it out for the default", "warning")


def _buffers(look: Look) -> Iterator[Finding]:
    for section, names in (
        ("offload_param", ("buffer_count", "buffer_size")),
        ("offload_optimizer", ("buffer_count",)),
    ):
        device = look.get(_ZERO, section, "device")
        for name in names:
            path = (_ZERO, section, name)
            if device != "nvme" and _written(look, *path) == 0:
                text = (
                    f"{'.'.join(path)} is for nvme; with device {device or 'none'} it does nothing"
                )
                yield look.finds("note", "useless-key", path, text, "take it out")
            elif device == "nvme" and _written(look, *path) == 0:
                text = ": nothing can be moved to or from NVMe"
                yield from _bad(look, path, text, "leave it out for the default")
            elif device == "nvme" and section == "offload_optimizer":
                yield from _few_buffers(look, path)


def _few_buffers(look: Look, path: Path) -> Iterator[Finding]:
    count = _written(look, *path)
    optimizer = str(look.get("optimizer", "type")).lower()
    if count is None or count > _ADAM_STATES or optimizer not in _ADAM:
        return
    text = f"; {optimizer} needs 4: parameter, gradient and two moments"
    level: Level = "error" if count < _ADAM_STATES else "warning"
    yield from _bad(look, path, text, "write 4 or more", level)


def _profiler(look: Look) -> Iterator[Finding]:
    if not is_on(look.get("flops_profiler", "enabled")):
        return
    path: Path = ("flops_profiler", "profile_step")
    step = _written(look, *path)
    if step is not None and step < 0:
        yield from _bad(look, path, ": no step is profiled", "write a step from 1 on", "warning")


def _activations(look: Look) -> Iterator[Finding]:
    section = "activation_checkpointing"
    path: Path = (section, "contiguous_memory_optimization")
    if not is_on(look.get(*path)):
        return
    if not is_on(look.get(section, "partition_activations")):
        text = "contiguous_memory_optimization works with partition_activations only"
        yield look.finds("error", "needs-key", path, text, "switch that on, or this off")
    elif look.get(section, "number_checkpoints") is None:
        text = "contiguous_memory_optimization needs number_checkpoints, the number of layers"
        yield look.finds("error", "needs-key", path, text, f"add it to {section}")
    path = (section, "number_checkpoints")
    number = _written(look, *path)
    if number is not None and number < 1:
        yield from _bad(look, path, ": there is no place for a checkpoint", "write the layers")


def _workers(look: Look) -> Iterator[Finding]:
    section: Any = ("data_efficiency", "data_sampling")
    for name, needed in (
        ("curriculum_learning", "curriculum_metrics"),
        ("dynamic_batching", "max_tokens"),
    ):
        part = look.section(*section, name)
        if is_on(part.get("enabled")) and needed not in part:
            text = f"{name} is enabled and has no {needed}: DeepSpeed refuses it"
            where = (*section, name, "enabled")
            yield look.finds("error", "needs-key", where, text, f"add {needed}")
    if not is_on(look.get("data_efficiency", "enabled")) or not is_on(
        look.get(*section, "enabled")
    ):
        return
    for name, least in (("num_workers", 0), ("num_epochs", 1)):
        number = _written(look, *section, name)
        if number is not None and number < least:
            text = f"; it has to be at least {least}"
            yield from _bad(look, (*section, name), text, "change it, or leave it out")


def _writer(look: Look) -> Iterator[Finding]:
    for name in ("io_buffer_size", "io_multiplier"):
        path = ("checkpoint", "writer", name)
        number = _written(look, *path)
        if number is not None and number < 1:
            yield from _bad(look, path, "; it has to be at least 1", "leave it out")


def _mesh(look: Look) -> Iterator[Finding]:
    """DeepSpeed lays a mesh over the ranks where both sizes are there."""
    path: Path = ("data_parallel_size",)
    size, ways = _written(look, *path), _written(look, "sequence_parallel_size")
    if size is None:
        return
    world = look.around.world_size
    if ways is None:
        text = "data_parallel_size is not read without sequence_parallel_size"
        yield look.finds("warning", "useless-key", path, text, "take it out", at_value=False)
    elif size < 1:
        yield from _bad(look, path, "; it has to be at least 1", "take both out")
    elif world is not None and size * ways != world:
        text = f", times sequence_parallel_size {said(ways)} no {world} ranks"
        yield from _bad(look, path, text, "make the product the number of ranks")


def _tensor_parallel(look: Look) -> Iterator[Finding]:
    path = ("tensor_parallel", "autotp_size")
    size = _written(look, *path)
    if size is not None and size < 0:
        text = ": layers are split over ranks above 1 only"
        yield from _bad(look, path, text, "write the ranks that share a layer, or 0", "warning")


def _zenflow(look: Look) -> Iterator[Finding]:
    section = (_ZERO, "zenflow")
    if not isinstance(look.get(*section), dict):
        return
    path = (*section, "select_interval")
    interval = look.get(*path)
    automatic = look.get(*section, "select_strategy") in (None, "auto")
    if automatic and isinstance(interval, (int, float)):
        text = 'select_interval is a number, which DeepSpeed refuses with select_strategy "auto"'
        mend = 'write "select_strategy": "step" or "epoch"'
        yield look.finds("error", "needs-key", path, text, mend)
    elif not automatic and interval in (None, "auto"):
        text = f"select_strategy {look.get(*section, 'select_strategy')} needs a select_interval"
        where = (*section, "select_strategy")
        yield look.finds("error", "needs-key", where, text, "add it: a number of steps or epochs")


def _autotuning(look: Look) -> Iterator[Finding]:
    """An engine that is being tuned leaves by itself, with exit code 0."""
    for name in ("results_dir", "exps_dir"):
        if look.get("autotuning", name) == "":
            text = f"autotuning.{name} is empty, which DeepSpeed refuses"
            where = ("autotuning", name)
            yield look.finds("error", "needs-key", where, text, "name a directory, or leave it out")
    path = ("autotuning", "enabled")
    if is_on(look.get(*path)):
        last = look.number("autotuning", "end_profile_step")
        text = f"autotuning is on: DeepSpeed ends training after step {said((last or 0) + 1)}"
        mend = "take it out to train; `deepspeed --autotuning` alone has a use for it"
        yield look.finds("warning", "autotuning", path, text, mend)


def _direct_storage(look: Look) -> Iterator[Finding]:
    path = ("aio", "use_gds")
    if look.around.cpu and is_on(look.get(*path)):
        text = "aio.use_gds is on: it moves data between NVMe and GPUs, and there are none"
        yield look.finds("error", "needs-gpu", path, text, "take it out")
