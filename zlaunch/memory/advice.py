"""Which ways to train fit, which of them to take, and what would help the others.

Preferred in this order, the fastest first: ZeRO-1, 2, 3 on the GPUs; then what waits for the
host, ZeRO-2 before ZeRO-3; then what waits for a disk; and plain DDP last, which keeps
everything in fp32 (two H200, docs/memory.md: 357, 296, 99 and, for DDP, 160 samples/s).
The first one is recommended that leaves `SPARE` of the card; without such a one, the first
that fits at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zlaunch.memory.activations import Workload
from zlaunch.memory.estimate import Cluster, Estimate, estimate
from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.sizes import human
from zlaunch.memory.terms import Term, share, total

SPARE = 0.03
_MOST_SAMPLES = 1 << 16
_MOST_GPUS = 1 << 14
_PLACES = {"none": 0, "cpu": 1, "nvme": 2}


@dataclass(frozen=True)
class Limits:
    """Bytes of one GPU, and of a node's host memory and NVMe where they are known."""

    gpu: int
    host: int | None = None
    nvme: int | None = None


@dataclass(frozen=True)
class Verdict:
    """One recipe: its terms, whether it fits, why not, and what would help."""

    recipe: str
    settings: Settings
    estimate: Estimate
    limits: Limits
    largest_micro_batch: int
    reasons: tuple[str, ...]
    ways_out: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether GPU, host memory and NVMe all suffice, as far as they are known."""
        return not self.reasons

    @property
    def margin(self) -> int:
        """Bytes of the GPU that are left; below 0, what is missing."""
        return self.limits.gpu - self.estimate.gpu


@dataclass(frozen=True)
class Advice:
    """All recipes in the order asked for, and the name of the one to take."""

    verdicts: tuple[Verdict, ...]
    recommended: str | None

    @property
    def best(self) -> Verdict | None:
        """The verdict on the recommended recipe."""
        return next((v for v in self.verdicts if v.recipe == self.recommended), None)


def advise(
    recipes: Sequence[tuple[str, Settings]],
    shape: ModelShape,
    cluster: Cluster,
    work: Workload,
    limits: Limits,
) -> Advice:
    """Judge each recipe, given by its name and settings."""
    verdicts = tuple(_judge(name, s, shape, cluster, work, limits) for name, s in recipes)
    fitting = sorted((v for v in verdicts if v.fits), key=lambda v: speed(v.settings))
    roomy = [v for v in fitting if v.margin >= SPARE * limits.gpu]
    chosen = next(iter(roomy or fitting), None)
    return Advice(verdicts, chosen.recipe if chosen else None)


def speed(settings: Settings) -> tuple[int, ...]:
    """A key that sorts the fastest first."""
    optimizer, params = _PLACES[settings.optimizer], _PLACES[settings.params]
    return (not settings.deepspeed, max(optimizer, params), settings.stage, optimizer + params)


def _judge(
    name: str,
    settings: Settings,
    shape: ModelShape,
    cluster: Cluster,
    work: Workload,
    limits: Limits,
) -> Verdict:
    found = estimate(shape, settings, cluster, work)
    largest = largest_micro_batch(shape, settings, cluster, work, limits.gpu)
    reasons = [
        *_gpu_reasons(found, limits),
        *_place_reasons("host memory", found.host, limits.host),
        *_place_reasons("NVMe", found.nvme, limits.nvme),
        *_buffer_reasons(shape, settings, cluster),
    ]
    ways = _ways_out(shape, settings, cluster, work, limits, largest) if reasons else ()
    return Verdict(name, settings, found, limits, largest, tuple(reasons), ways)


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
    """Parameters come from NVMe through buffers of a fixed size (`partitioned_param_swapper`)."""
    part = share(shape.largest_tensor, cluster.ranks)
    if settings.params != "nvme" or part <= settings.param_buffer_size:
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


def _ways_out(
    shape: ModelShape,
    settings: Settings,
    cluster: Cluster,
    work: Workload,
    limits: Limits,
    largest: int,
) -> tuple[str, ...]:
    ways: list[str] = []
    found = estimate(shape, settings, cluster, work)
    if _buffer_reasons(shape, settings, cluster):
        size = share(shape.largest_tensor, cluster.ranks)
        ways.append(f"--set zero_optimization.offload_param.buffer_size={size}")
    if found.gpu > limits.gpu:
        if 0 < largest < work.micro_batch:
            ways.append(f"--micro-batch {largest}")
        if not work.checkpointing:
            less = replace(work, checkpointing=True)
            samples = largest_micro_batch(shape, settings, cluster, less, limits.gpu)
            if samples > largest:
                batch = min(samples, work.micro_batch)
                ways.append(f"--checkpointing, up to a micro batch of {samples}" if batch else "")
        more = _more_gpus(shape, settings, cluster, work, limits.gpu)
        if more:
            ways.append(f"{more} GPUs")
    if limits.host is not None and total(found.host) > limits.host:
        nodes = _more_nodes(shape, settings, cluster, work, limits.host)
        ways += [f"{nodes} such nodes"] if nodes else []
    return tuple(filter(None, ways))


def _more_gpus(
    shape: ModelShape, settings: Settings, cluster: Cluster, work: Workload, gpu: int
) -> int:
    """The least number of GPUs, doubling, with which it fits; 0 where none helps."""
    ranks = cluster.ranks * 2
    while settings.stage and ranks <= _MOST_GPUS:
        if estimate(shape, settings, Cluster(ranks), work).gpu <= gpu:
            return ranks
        ranks *= 2
    return 0


def _more_nodes(
    shape: ModelShape, settings: Settings, cluster: Cluster, work: Workload, host: int
) -> int:
    """The least number of nodes, doubling, whose memory suffices; 0 where none does."""
    nodes = cluster.nodes * 2
    while settings.stage and nodes * cluster.gpus <= _MOST_GPUS:
        needed = total(estimate(shape, settings, replace(cluster, nodes=nodes), work).host)
        if needed <= host:
            return nodes
        nodes *= 2
    return 0
