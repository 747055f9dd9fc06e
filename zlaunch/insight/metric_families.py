"""What is known of a run as Prometheus' families: the newest of each rank, and which ranks run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from zlaunch.frozen import frozen
from zlaunch.insight.exposition import Family, Sample
from zlaunch.run.metrics import Metric

# field of a Metric: name, kind, help
_FAMILIES = {
    "step": ("zlaunch_step", "gauge", "Optimizer step that the rank told of last."),
    "total": ("zlaunch_steps_planned", "gauge", "Optimizer steps that there are to be."),
    "epoch": ("zlaunch_epoch", "gauge", "Epoch, as the rank tells it."),
    "loss": ("zlaunch_loss", "gauge", "Loss."),
    "eval_loss": ("zlaunch_eval_loss", "gauge", "Loss of the last evaluation."),
    "lr": ("zlaunch_learning_rate", "gauge", "Learning rate."),
    "grad_norm": ("zlaunch_grad_norm", "gauge", "Norm of the gradients."),
    "loss_scale": ("zlaunch_loss_scale", "gauge", "Loss scale."),
    "skipped": ("zlaunch_skipped_steps_total", "counter", "Steps skipped so far in this attempt."),
    "samples_per_second": ("zlaunch_samples_per_second", "gauge", "Samples a second."),
    "tokens_per_second": ("zlaunch_tokens_per_second", "gauge", "Tokens a second."),
    "step_seconds": ("zlaunch_step_seconds", "gauge", "Seconds that a step takes."),
    "gpu_memory": ("zlaunch_gpu_memory_bytes", "gauge", "Memory taken on the rank's GPU."),
    "gpu_memory_total": ("zlaunch_gpu_memory_capacity_bytes", "gauge", "Memory of that GPU."),
    "gpu_utilization": ("zlaunch_gpu_utilization_percent", "gauge", "How busy that GPU is."),
    "rss": ("zlaunch_resident_memory_bytes", "gauge", "Memory of the rank's processes together."),
    "cpu": ("zlaunch_cpu_cores", "gauge", "Cores that the rank's processes keep busy."),
}


@frozen
class Standing:
    """How a run stands: how many ranks it has, which of them run, and which attempt it is."""

    run: str
    world_size: int
    running: Collection[int]
    attempt: int


def families(
    standing: Standing, newest: Iterable[Metric], seconds_left: Mapping[int, float]
) -> list[Family]:
    """Return all families; where several sources tell a rank's loss, the one that told it last."""
    run = {"run": standing.run}
    known: dict[int, dict[str, float]] = {}
    for metric in sorted(newest, key=lambda metric: metric.at):
        told = {name: value for name in _FAMILIES if (value := getattr(metric, name)) is not None}
        known.setdefault(metric.rank, {}).update(told)
    up = {rank: float(rank in standing.running) for rank in range(standing.world_size)}
    attempt = (Sample(run, standing.attempt),)
    return [
        Family("zlaunch_attempt", "gauge", "Number of the attempt, from 0.", attempt),
        _family(run, "zlaunch_rank_up", "gauge", "Whether the rank's main process runs.", up),
        *(
            _family(run, *family, {r: f[name] for r, f in sorted(known.items()) if name in f})
            for name, family in _FAMILIES.items()
        ),
        _family(run, "zlaunch_seconds_left", "gauge", "Seconds to the last step.", seconds_left),
    ]


def _family(
    run: Mapping[str, str], name: str, kind: str, text: str, values: Mapping[int, float]
) -> Family:
    samples = (Sample({**run, "rank": str(rank)}, value) for rank, value in values.items())
    return Family(name, "counter" if kind == "counter" else "gauge", text, tuple(samples))
