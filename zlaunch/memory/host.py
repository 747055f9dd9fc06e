"""What a node keeps in host memory and on NVMe.

For each parameter of a rank's part (DeepSpeed 0.19.8):

    optimizer on the CPU   4 weights, k moments, 4 gradients in fp32, e gradients as they came
                           (stage 2: e staging for the updated weights, and e gradients that
                           wait where micro steps are accumulated)
    parameters on the CPU  e
    optimizer on NVMe      4 weights, k moments, 4 gradients on the disk; e gradients in memory,
                           and `buffer_count` buffers of the largest sub group in fp32
    parameters on NVMe     e on the disk beyond `max_in_cpu`, and `buffer_count` buffers of
                           `buffer_size`

Pinned tensors come from torch's host allocator, which takes the next power of two
(`aten/src/ATen/core/CachingHostAllocator.h`).
"""

from __future__ import annotations

from typing import TypeAlias

from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.sizes import GIB
from zlaunch.memory.terms import Term, present, share

# Bytes of a tensor, and how many such tensors there are.
Sizes: TypeAlias = list[tuple[int, int]]
# Python, torch and CUDA's libraries of one worker; assumed.
PROCESS = 2 * GIB


def host_terms(shape: ModelShape, settings: Settings, gpus: int, ranks: int) -> tuple[Term, ...]:
    """Bytes of one node's memory while training, all its `gpus` workers together."""
    part = share(shape.parameters, ranks)
    terms, pinned = _of_rank(shape, settings, part)
    rounding = sum(count * (rounded(size) - size) for size, count in pinned)
    terms += (Term("overhead", "pinned memory, to powers of two", rounding),)
    terms += (Term("overhead", "worker processes", PROCESS),)
    return present(*(Term(t.group, t.name, t.size * gpus) for t in terms))


def nvme_terms(shape: ModelShape, settings: Settings, gpus: int, ranks: int) -> tuple[Term, ...]:
    """Bytes on one node's disk."""
    part = share(shape.parameters, ranks)
    optimizer = settings.optimizer == "nvme"
    beyond = max(0, part - settings.max_in_cpu) if settings.params == "nvme" else 0
    return present(
        Term("states", "fp32 weights", 4 * part * gpus if optimizer else 0),
        Term("states", "optimizer moments", settings.moments * part * gpus if optimizer else 0),
        Term("states", "gradients in fp32", 4 * part * gpus if optimizer else 0),
        Term("states", "parameters", settings.element * beyond * gpus),
    )


def start_up(shape: ModelShape, gpus: int) -> int:
    """Bytes of host memory where each worker of a node builds the whole model in fp32."""
    return 4 * shape.parameters * gpus


def rounded(size: int) -> int:
    """What torch's allocator of pinned memory takes for `size` bytes."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


def _of_rank(shape: ModelShape, settings: Settings, part: int) -> tuple[tuple[Term, ...], Sizes]:
    """One rank's terms, and its pinned tensors."""
    terms: list[Term] = []
    pinned: Sizes = []
    if settings.optimizer == "cpu":
        terms += [
            Term("states", "fp32 weights", 4 * part),
            Term("states", "optimizer moments", settings.moments * part),
            Term("states", "gradients in fp32", 4 * part),
        ]
    if settings.optimizer != "none":
        more, also = _gradients(shape, settings, part)
        terms += more
        pinned += also if settings.optimizer_pinned else []
    if settings.optimizer == "nvme":
        size = 4 * settings.optimizer_buffers * min(part, settings.sub_group)
        terms.append(Term("buffers", "optimizer's swap buffers", size))
    if settings.params != "none":
        size = settings.element * (
            min(part, settings.max_in_cpu) if settings.params == "nvme" else part
        )
        terms.append(Term("states", "parameters", size))
        pinned.append((size, 1))
    if settings.params == "nvme":
        size = settings.element * settings.param_buffers * settings.param_buffer_size
        terms.append(Term("buffers", "parameters' swap buffers", size))
    return tuple(terms), pinned


def _gradients(shape: ModelShape, settings: Settings, part: int) -> tuple[list[Term], Sizes]:
    """Half-precision gradients and staging of a rank whose optimizer is on the host or NVMe."""
    if settings.stage == 3:
        came = settings.accumulated * part
        groups = _sub_groups(part, settings.sub_group) if settings.optimizer == "cpu" else []
        of_groups = [(4 * size, count) for size, count in groups]
        return [Term("states", "gradients", came)], [(came, 1), *of_groups]
    waiting = settings.element * part if settings.accumulation > 1 else 0
    staging = settings.element * part
    largest = settings.element * shape.largest_tensor
    terms = [
        Term("states", "gradients", waiting),
        Term("buffers", "staging for the GPU", staging + largest),
    ]
    return terms, [(4 * part, 2), (staging, 1), (largest, 1), (waiting, 1)]


def _sub_groups(part: int, size: int) -> Sizes:
    """Sub groups of equal size, and what is left; counted, since there may be any number."""
    if size <= 0 or size >= part:
        return [(part, 1)]
    return [(size, part // size), (part % size, 1)]
