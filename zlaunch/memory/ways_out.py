"""What would make a way to train fit that does not: fewer samples, checkpointing, more GPUs.

Each way is a whole one: with it, everything fits that is known to be limited. The simplest are
tried first, and two together only where neither does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.memory.activations import Workload
from zlaunch.memory.estimate import Cluster, estimate
from zlaunch.memory.fit import Limits, buffer_needed, largest_micro_batch, reasons
from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape

_MOST_GPUS = 1 << 14
_OF_A_NODE = 8  # more GPUs are hardly in one


@frozen
class Trial:
    """A way to train, with all that is changed for it."""

    shape: ModelShape
    settings: Settings
    cluster: Cluster
    work: Workload
    limits: Limits

    def fits(self) -> bool:
        """Whether everything suffices."""
        found = estimate(self.shape, self.settings, self.cluster, self.work)
        return not reasons(found, self.shape, self.settings, self.cluster, self.limits)

    def largest(self) -> int:
        """The most samples that fit on a GPU."""
        return largest_micro_batch(
            self.shape, self.settings, self.cluster, self.work, self.limits.gpu
        )

    def with_buffer(self) -> tuple[Trial, str]:
        """With a buffer for NVMe that is large enough, and the option that says so."""
        size = buffer_needed(self.shape, self.settings, self.cluster)
        if not size:
            return self, ""
        settings = replace(self.settings, param_buffer_size=size)
        option = f"--set zero_optimization.offload_param.buffer_size={size}"
        return replace(self, settings=settings), option


def ways_out(trial: Trial) -> tuple[str, ...]:
    """All that helps, as options of `zlaunch plan` or as numbers of GPUs and nodes."""
    alone, option = trial.with_buffer()
    if option and alone.fits():
        return (option,)
    ways = [way for way in (_fewer_samples(trial), _checkpointing(trial), _more(trial)) if way]
    if not trial.work.checkpointing:
        both = _more(replace(trial, work=replace(trial.work, checkpointing=True)))
        if both and (not ways or _more(trial) not in ("", both)) and not _checkpointing(trial):
            ways.append(f"--checkpointing with {both}")
    return tuple(ways) or _all_together(trial)


def _all_together(trial: Trial) -> tuple[str, ...]:
    """The least that a GPU can be asked for, on as many as that takes."""
    work = replace(trial.work, micro_batch=1, checkpointing=True)
    more = _more(replace(trial, work=work))
    given = "--checkpointing" if not trial.work.checkpointing else ""
    fewer = "--micro-batch 1" if trial.work.micro_batch > 1 else ""
    return (f"{_joined(given, fewer)} with {more}",) if more and (given or fewer) else ()


def _fewer_samples(trial: Trial) -> str:
    trial, option = trial.with_buffer()
    samples = trial.largest()
    if not 0 < samples < trial.work.micro_batch:
        return ""
    fewer = replace(trial, work=replace(trial.work, micro_batch=samples))
    return _joined(f"--micro-batch {samples}", option) if fewer.fits() else ""


def _checkpointing(trial: Trial) -> str:
    if trial.work.checkpointing:
        return ""
    trial, option = trial.with_buffer()
    trial = replace(trial, work=replace(trial.work, checkpointing=True))
    if trial.fits():
        return _joined("--checkpointing", option)
    fewer = _fewer_samples(trial)
    return _joined("--checkpointing", fewer, option) if fewer else ""


def _more(trial: Trial) -> str:
    """The least number of GPUs or nodes with which it fits; "" where none helps."""
    if not trial.settings.stage:  # nothing is divided among them
        return ""
    for cluster in _larger(trial.cluster):
        grown, option = replace(trial, cluster=cluster).with_buffer()
        if grown.fits():
            return _joined(_named(cluster), option)
    return ""


def _larger(cluster: Cluster) -> Iterator[Cluster]:
    """Twice as many again and again: first in the node, where there is one, then more nodes."""
    if cluster.nodes == 1:
        gpus = cluster.gpus * 2
        while gpus <= _OF_A_NODE:
            yield Cluster(gpus)
            gpus *= 2
    nodes = cluster.nodes * 2
    while nodes * cluster.gpus <= _MOST_GPUS:
        yield Cluster(cluster.gpus, nodes)
        nodes *= 2


def _named(cluster: Cluster) -> str:
    if cluster.nodes == 1:
        return f"{cluster.gpus} such GPUs"
    gpus = f" ({cluster.ranks} GPUs)" if cluster.gpus > 1 else ""
    return f"{cluster.nodes} such nodes{gpus}"


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
