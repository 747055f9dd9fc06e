"""What a plan says in sentences: the command to run, what is too much, what is left out."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from zlaunch.memory.advice import Advice, Verdict
from zlaunch.memory.sizes import billions, human

if TYPE_CHECKING:
    from zlaunch.cli.plan import Question

NOT_INCLUDED = (
    "other processes on the GPU",
    "LoRA, packed (4-bit) and frozen parameters: all are taken as trained in full",
    "tensor, pipeline, sequence and expert parallelism",
    "torch.compile, CUDA graphs and fused losses",
    "evaluation, generation and their caches, saving",
    "images and sound beside text: the activations of their towers",
    "data loaders, and models built whole on the host at the start",
)


def heading(asked: Question) -> str:
    """One line that says what is planned."""
    shape, work, cluster = asked.shape, asked.work, asked.cluster
    count = f"{shape.parameters:,}"
    if not shape.exact:
        guessed = shape.source.startswith("--params")
        count = f"{'about' if guessed else 'an estimate of'} {billions(shape.parameters)}"
    many = f"{cluster.nodes} x " if cluster.nodes > 1 else ""
    recomputed = ", checkpointing" if work.checkpointing else ""
    return (
        f"{shape.name}: {count} parameters, {asked.precision}; micro batch {work.micro_batch},"
        f" {work.sequence} tokens, {work.attention} attention{recomputed};"
        f" {many}{cluster.gpus} GPU{'s' * (cluster.gpus > 1)} of {human(asked.limits.gpu)}"
    )


def command(asked: Question, verdict: Verdict) -> list[str]:
    """The command that trains so, each option with its value."""
    cluster, recipe = asked.cluster, shlex.quote(verdict.recipe)
    if cluster.nodes > 1:
        words = ["zlaunch multinode", "--hostfile HOSTS", f"--num-nodes {cluster.nodes}"]
    else:
        words = ["zlaunch run", f"--num-gpus {cluster.gpus}"]
    of_file = verdict.recipe == asked.ds_config
    words.append(f"--ds-config {recipe}" if of_file else f"--recipe {recipe}")
    if verdict.settings.deepspeed:
        if not of_file:
            words += [f"--precision {asked.precision}", f"--micro-batch {asked.work.micro_batch}"]
            words += [] if asked.accumulate is None else [f"--accumulate {asked.accumulate}"]
        words += [f"--set {shlex.quote(text)}" for text in asked.overrides]
    return [*words, "SCRIPT"]


def conclusion(advice: Advice) -> str:
    """What to take, or that there is nothing, and what comes nearest."""
    best = advice.best
    if best is not None:
        most = best.largest_micro_batch
        return f"recommended: {best.recipe}, which has room for a micro batch of up to {most}:"
    helped = [verdict for verdict in advice.verdicts if verdict.ways_out]
    if not helped:
        return (
            "no recipe fits: neither checkpointing, a smaller micro batch nor more GPUs of this"
            " size would help"
        )
    # What these GPUs can do, the fastest first; else what lacks least of them.
    here = [v for v in helped if any("such" not in way for way in v.ways_out)]
    nearest = here[0] if here else min(helped, key=lambda verdict: max(0, -verdict.margin))
    ways = [way for way in nearest.ways_out if not here or "such" not in way]
    return f"no recipe fits as asked; {nearest.recipe} would with {' or '.join(ways)}"


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
    if asked.work.checkpointing:
        found.append(
            "--checkpointing is a matter of the script: model.gradient_checkpointing_enable(), or"
            " gradient_checkpointing=True of the Trainer"
        )
    return found
