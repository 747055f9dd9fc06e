"""What a plan says in sentences: the command to run, what is too much, what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlaunch.memory.advice import Advice, Verdict
from zlaunch.memory.sizes import billions, human

if TYPE_CHECKING:
    from zlaunch.cli.plan import Question

NOT_INCLUDED = (
    "other processes on the GPU",
    "LoRA and frozen parameters (all are taken as trained)",
    "tensor, pipeline, sequence and expert parallelism",
    "torch.compile, CUDA graphs and fused losses",
    "evaluation, generation and their caches",
    "images and sound: the activations of their towers",
    "data loaders, and models built whole on the host at the start",
)


def heading(asked: Question) -> str:
    """One line that says what is planned."""
    shape, work, cluster = asked.shape, asked.work, asked.cluster
    count = f"{shape.parameters:,}" if shape.exact else f"about {billions(shape.parameters)}"
    many = f"{cluster.nodes} x " if cluster.nodes > 1 else ""
    recomputed = ", checkpointing" if work.checkpointing else ""
    return (
        f"{shape.name}: {count} parameters, {asked.precision}; micro batch {work.micro_batch},"
        f" {work.sequence} tokens, {work.attention} attention{recomputed};"
        f" {many}{cluster.gpus} GPU{'s' * (cluster.gpus > 1)} of {human(asked.limits.gpu)}"
    )


def command(asked: Question, verdict: Verdict) -> str:
    """The command that trains so."""
    cluster, recipe = asked.cluster, verdict.recipe
    if cluster.nodes > 1:
        words = ["zlaunch multinode", f"--hostfile HOSTS --num-nodes {cluster.nodes}"]
    else:
        words = ["zlaunch run", f"--num-gpus {cluster.gpus}"]
    words.append(f"--ds-config {recipe}" if recipe.endswith(".json") else f"--recipe {recipe}")
    if verdict.settings.deepspeed:
        words.append(f"--precision {asked.precision} --micro-batch {asked.work.micro_batch}")
    return " ".join([*words, "SCRIPT"])


def verdict_words(verdict: Verdict) -> str:
    """Why a recipe does not fit, and what would help."""
    ways = " or ".join(verdict.ways_out)
    helps = f"; what would help: {ways}" if ways else ""
    return f"{verdict.recipe}: {'; '.join(verdict.reasons)}{helps}"


def notes(asked: Question, advice: Advice) -> list[str]:
    """What was assumed, and what was not looked at."""
    found = list(asked.notes)
    on_host = any(v.estimate.host and v.settings.optimizer != "none" for v in advice.verdicts)
    if on_host and asked.limits.host is None:
        found.append("host memory is not checked: --host-memory says how much a node has")
    if any(v.estimate.nvme for v in advice.verdicts) and asked.limits.nvme is None:
        found.append("NVMe is not checked: --nvme says how much is free on a node's disk")
    return found
