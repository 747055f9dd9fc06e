"""Whether one way to train fits, why not, and the most samples with which it does."""

from __future__ import annotations

from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.memory.activations import Workload
from zlaunch.memory.estimate import Cluster, Estimate, estimate
from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.sizes import human
from zlaunch.memory.terms import Term, share, total

_MOST_SAMPLES = 1 << 16


@frozen
class Limits:
    """Bytes of one GPU, and of a node's host memory and NVMe where they are known."""

    gpu: int
    host: int | None = None
    nvme: int | None = None


def reasons(
    found: Estimate, shape: ModelShape, settings: Settings, cluster: Cluster, limits: Limits
) -> tuple[str, ...]:
    """All that is too much; nothing where it fits, as far as the limits are known."""
    return (
        *_gpu_reasons(found, limits),
        *_place_reasons("host memory", found.host, limits.host),
        *_place_reasons("NVMe", found.nvme, limits.nvme),
        *_buffer_reasons(shape, settings, cluster),
    )


def buffer_needed(shape: ModelShape, settings: Settings, cluster: Cluster) -> int:
    """Elements of `offload_param.buffer_size`, where it is too small; else 0.

    Parameters come from NVMe through buffers of a fixed size (`partitioned_param_swapper`).
    """
    part = share(shape.largest_tensor, cluster.ranks)
    return part if settings.params == "nvme" and part > settings.param_buffer_size else 0


def largest_micro_batch(
    shape: ModelShape, settings: Settings, cluster: Cluster, work: Workload, gpu: int
) -> int:
    """The most samples a step and GPU that fit into `gpu` bytes; 0 where one does not."""

    def fits(samples: int) -> bool:
        asked = replace(work, micro_batch=samples)
        return estimate(shape, settings, cluster, asked).gpu <= gpu

    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= _MOST_SAMPLES and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _gpu_reasons(found: Estimate, limits: Limits) -> list[str]:
    if found.gpu <= limits.gpu:
        return []
    peak = found.peak
    missing = human(found.gpu - limits.gpu)
    return [
        (
            f"a GPU needs {human(found.gpu)} of {human(limits.gpu)}, {missing} too much, in the"
            f" {peak.name}: {_most(peak.terms)}"
        )
    ]


def _place_reasons(place: str, terms: tuple[Term, ...], limit: int | None) -> list[str]:
    needed = total(terms)
    if limit is None or needed <= limit:
        return []
    return [f"a node needs {human(needed)} of {human(limit)} {place}: {_most(terms)}"]


def _buffer_reasons(shape: ModelShape, settings: Settings, cluster: Cluster) -> list[str]:
    part = buffer_needed(shape, settings, cluster)
    if not part:
        return []
    return [
        (
            f"offload_param.buffer_size is {settings.param_buffer_size:,} elements, and the largest"
            f" parameter's part has {part:,}"
        )
    ]


def _most(terms: tuple[Term, ...]) -> str:
    """The largest terms that make up most of the sum, largest first."""
    needed, shown, named = total(terms), 0, []
    for term in sorted(terms, key=lambda term: -term.size)[:3]:
        if shown > 0.8 * needed:
            break
        shown += term.size
        named.append(f"{term.name} {human(term.size)}")
    return ", ".join(named)
