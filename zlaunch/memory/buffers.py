"""What lies on the GPU beside states and activations: buckets, gathered parameters, scratch."""

from __future__ import annotations

from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.sizes import GIB
from zlaunch.memory.terms import Term, present

# cuBLAS's workspaces and small tensors: what ZeRO-2 and DDP took above the formula where only
# the optimizer's step decides (docs/memory.md: 78 and 74 MiB).
WORKSPACE = 80 * 1024**2
# Outside torch's allocator, and so outside max_memory_allocated; measured on one and two H200
# (docs/memory.md, "Beside torch's allocator"). The context, with the kernels that a step loads:
CUDA_CONTEXT = int(0.75 * GIB)
# One communicator of NCCL; what DeepSpeed adds to it; and what stage 3 adds to that.
_NCCL = int(0.83 * GIB)
_NCCL_DEEPSPEED = int(0.20 * GIB)
_NCCL_STAGE_3 = int(0.28 * GIB)
# torch's allocator reserves more than it hands out. 5 % is what the largest batches of the
# measured runs leave room for.
FRAGMENTATION = 0.05


def nccl(settings: Settings, ranks: int) -> int:
    """Bytes of NCCL's buffers on each GPU; none with one rank."""
    if ranks == 1:
        return 0
    more = _NCCL_DEEPSPEED if settings.deepspeed else 0
    return _NCCL + more + (_NCCL_STAGE_3 if settings.stage == 3 else 0)


def constant_buffers(shape: ModelShape, settings: Settings, ranks: int) -> tuple[Term, ...]:
    """What is there all the time."""
    bucket = settings.element * settings.reduce_bucket
    third = settings.stage == 3 and settings.contiguous
    staging = settings.element * shape.largest_tensor
    to_host = settings.stage in (1, 2) and settings.optimizer != "none"
    ddp = 4 * shape.parameters if not settings.deepspeed and ranks > 1 else 0
    return present(
        Term("buffers", "reduce bucket", bucket if third else 0),
        Term("buffers", "DDP's buckets", ddp),
        Term("buffers", "staging for the host", staging if to_host else 0),
        Term("buffers", "cuBLAS workspaces", WORKSPACE),
    )


def pass_buffers(shape: ModelShape, settings: Settings, ranks: int) -> tuple[Term, ...]:
    """What is there from the forward pass until the end of the backward pass."""
    gathered = 0
    # With one rank the partition is the parameter itself, unless it lies on the host.
    if settings.stage == 3 and (ranks > 1 or settings.params != "none"):
        gathered = settings.element * min(
            shape.parameters, max(settings.max_live, shape.largest_tensor)
        )
    cast = 2 * (shape.parameters - shape.embeddings) if settings.autocast else 0
    return present(
        Term("buffers", "gathered parameters", gathered),
        Term("buffers", "autocast's copies of weights", cast),
    )


def backward_buffers(settings: Settings, ranks: int) -> tuple[Term, ...]:
    """What the backward pass adds as it begins: buckets, and what is reduced from them."""
    bucket = settings.element * settings.reduce_bucket
    if settings.stage == 3:
        return present(Term("buffers", "reduce-scatter's copy", bucket if ranks > 1 else 0))
    if settings.stage == 0 or not settings.contiguous:
        return ()
    count = 2 if settings.overlap else 1
    width = settings.accumulated if settings.stage == 1 else settings.element
    return present(Term("buffers", "reduce buckets", count * width * settings.reduce_bucket))


def bucket_share(shape: ModelShape, settings: Settings) -> float:
    """The part of the backward pass after which the first bucket is full and reduced."""
    inside = max(1, shape.parameters - shape.embeddings)
    return min(1.0, settings.reduce_bucket / inside) if settings.deepspeed else 0.0


def step_buffers(shape: ModelShape, settings: Settings) -> tuple[Term, ...]:
    """Torch's AdamW computes all square roots at once (foreach); DeepSpeed's is fused."""
    foreach = 4 * shape.parameters if not settings.deepspeed else 0
    return present(Term("buffers", "AdamW's square roots", foreach))
