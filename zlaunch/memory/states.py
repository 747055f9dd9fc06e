"""Parameters, gradients and optimizer states of one rank, on its GPU.

Per parameter, with N ranks, e = 2 bytes in half precision and 4 in fp32, and the optimizer's
k bytes (Adam: 8, two moments in fp32):

    ddp       4 parameters, 4 gradients, 4 DDP's buckets, k                 torch, fp32 weights
    stage 0   e, e gradients, 4 master weights (half precision only), k
    stage 1   e, e gradients, (4 + k)/N
    stage 2   e, e/N, (4 + k)/N
    stage 3   e/N, e/N (a buffer that is always there), (4 + k)/N

DeepSpeed keeps the fp32 master weights in fp32 training too, at the stages 1 to 3: the code
that would spare the copy at stage 3 compares a device with its name, which never are equal
(`stage3.py`, `_create_fp32_partitions`; seen in tests/journeys/test_memory_deepspeed.py).
Gradients wait in the
precision of the model, bf16 as well as fp16, unless `data_types.grad_accum_dtype` says fp32
(`engine.py`, `get_data_types`).
"""

from __future__ import annotations

from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.terms import Term, present, share

GRADIENTS = "gradients"


def constant_states(shape: ModelShape, settings: Settings, ranks: int) -> tuple[Term, ...]:
    """What is there all the time once the first step is done."""
    parameters = shape.parameters
    part = share(parameters, ranks if settings.stage else 1)
    if not settings.deepspeed:
        return present(
            Term("states", "parameters", 4 * parameters),
            Term("states", "optimizer moments", settings.moments * parameters),
        )
    on_gpu = settings.optimizer == "none"
    split = settings.stage == 3
    held = 0 if settings.params != "none" else (part if split else parameters)
    whole = shape.persistent(settings.persistence) if split and ranks > 1 else 0
    return present(
        Term("states", "parameters", settings.element * held),
        Term("states", "small parameters, kept whole", settings.element * whole),
        Term("states", "fp32 weights", 4 * part if on_gpu and _has_master(settings) else 0),
        Term("states", "optimizer moments", settings.moments * part if on_gpu else 0),
        Term("states", GRADIENTS, settings.accumulated * part if split and on_gpu else 0),
    )


def earlier_gradients(shape: ModelShape, settings: Settings, ranks: int) -> int:
    """Bytes of gradients that wait from the micro steps before, in the last one's forward pass."""
    if settings.accumulation == 1 or settings.stage == 3:
        return 0
    if not settings.deepspeed:
        return 4 * shape.parameters
    if settings.stage == 2:
        on_gpu = settings.optimizer == "none"
        return settings.accumulated * share(shape.parameters, ranks) if on_gpu else 0
    return settings.accumulated * shape.parameters


def new_gradients(shape: ModelShape, settings: Settings, ranks: int) -> int:
    """Bytes of gradients at the end of a backward pass, without those that waited before it."""
    parameters = shape.parameters
    if settings.stage == 3:
        return 0
    if not settings.deepspeed:
        return 4 * parameters if settings.accumulation == 1 else 0
    if settings.stage == 2 or (settings.stage == 1 and settings.overlap):
        # Reduced ones move into the rank's own partition; the others' are let go at once.
        on_gpu = settings.optimizer == "none"
        return settings.accumulated * share(parameters, ranks) if on_gpu else 0
    return settings.accumulated * parameters if settings.accumulation == 1 else 0


def gradients_for_step(shape: ModelShape, settings: Settings, ranks: int) -> tuple[Term, ...]:
    """The rank's gradients while the optimizer steps: as they came, flattened, and in fp32.

    `stage_1_and_2.py`, `step`: flatten(averaged_gradients).to(fp32), and only then are the
    first two let go. Stage 3 does so for one sub group after the other.
    """
    if settings.optimizer != "none":
        return ()
    if not settings.deepspeed:
        return (Term("states", GRADIENTS, 4 * shape.parameters),)
    part = share(shape.parameters, ranks if settings.stage else 1)
    at_once = min(part, settings.sub_group) if settings.stage == 3 else part
    came = 0 if settings.stage == 3 else settings.accumulated * part
    converted = 4 * at_once if settings.accumulated < 4 else 0
    flattened = settings.accumulated * at_once if settings.stage else 0
    return present(
        Term("states", GRADIENTS, came),
        Term("buffers", "flattened gradients", flattened),
        Term("buffers", "gradients in fp32", converted),
    )


def _has_master(settings: Settings) -> bool:
    return settings.half or settings.stage > 0
