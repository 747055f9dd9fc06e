"""Which ways to train fit, which of them to take, and what would help the others.

Preferred in this order, the fastest first: ZeRO-1, 2, 3 on the GPUs; then what waits for the
host, ZeRO-2 before ZeRO-3; then what waits for a disk; and plain DDP last, which keeps
everything in fp32 (two H200, docs/memory.md: 357, 296, 99 and, for DDP, 160 samples/s).
The first one is recommended that leaves `SPARE` of the card; without such a one, the first
that fits at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from zlaunch.frozen import frozen
from zlaunch.memory.activations import Workload
from zlaunch.memory.estimate import Cluster, Estimate, estimate
from zlaunch.memory.fit import Limits, largest_micro_batch, reasons
from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.ways_out import Trial, ways_out

SPARE = 0.03
_PLACES = {"none": 0, "cpu": 1, "nvme": 2}


@frozen
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


@frozen
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
    why = reasons(found, shape, settings, cluster, limits)
    ways = ways_out(Trial(shape, settings, cluster, work, limits)) if why else ()
    return Verdict(name, settings, found, limits, largest, why, ways)
