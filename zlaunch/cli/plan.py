"""`zlaunch plan`: which recipes fit a model on given GPUs, term by term. Starts nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Literal

import typer

from zlaunch.cli.model_files import read_shape
from zlaunch.cli.options import AccumulateOption, MicroBatchOption, OverridesOption
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.plan_configs import micro_of, read_own, recipes_asked, settings_of_own
from zlaunch.cli.request import Precision
from zlaunch.dsconfig.batch import solve_batch
from zlaunch.dsconfig.overrides import parse_override
from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.memory.activations import Workload
from zlaunch.memory.advice import Advice, advise
from zlaunch.memory.estimate import Cluster
from zlaunch.memory.fit import Limits
from zlaunch.memory.guess import guess_shape
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.sizes import parse_bytes, parse_count
from zlaunch.spec.device import Device
from zlaunch.spec.devices import visible_slots
from zlaunch.system.gpus import discover
from zlaunch.system.host_memory import host_memory

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_NOTHING_FITS = 1
_SEQUENCE = 2048  # tokens, where the user says none and the model takes as many

Attention = Literal["auto", "eager", "sdpa", "flash"]


@frozen
class Question:
    """All that a plan is made from, and what was assumed for it."""

    shape: ModelShape
    cluster: Cluster
    limits: Limits
    work: Workload
    precision: Precision
    notes: tuple[str, ...]
    accumulate: int | None = None
    overrides: tuple[str, ...] = ()
    ds_config: str | None = None


def plan(
    params: Annotated[
        str | None, typer.Option("--params", metavar="N", help="Parameters of a decoder: 7b, 350m.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="PATH", help="Its folder, config.json or .safetensors."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", min=1, max=4096, help="GPUs of a node.")
    ] = None,
    gpu_memory: Annotated[
        str | None, typer.Option("--gpu-memory", metavar="SIZE", help="Of one GPU: 80GiB, 24g.")
    ] = None,
    nodes: Annotated[
        int, typer.Option("--nodes", metavar="N", min=1, max=4096, help="Equal nodes.")
    ] = 1,
    host_memory_size: Annotated[
        str | None, typer.Option("--host-memory", metavar="SIZE", help="Of one node: 512GiB.")
    ] = None,
    nvme: Annotated[
        str | None, typer.Option("--nvme", metavar="SIZE", help="Free on one node's disk: 2TB.")
    ] = None,
    seq: Annotated[
        int | None,
        typer.Option("--seq", metavar="N", min=1, max=10_000_000, help="Tokens of a sample."),
    ] = None,
    micro_batch: MicroBatchOption = None,
    accumulate: AccumulateOption = None,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Recompute each layer in the backward pass.")
    ] = False,
    attention: Annotated[
        Attention, typer.Option("--attention", help="Default: what Transformers chooses.")
    ] = "auto",
    precision: Annotated[
        Precision | None, typer.Option("--precision", help="Default: bf16 where the GPU can.")
    ] = None,
    recipes: Annotated[
        list[str] | None,
        typer.Option("--recipe", "-r", help="Only this one, or FILE.toml; repeatable."),
    ] = None,
    ds_config: Annotated[
        str | None, typer.Option("--ds-config", metavar="FILE", help="Also your own ds_config.")
    ] = None,
    overrides: OverridesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything in bytes, as data.")] = False,
) -> None:
    """Which recipes fit a model into memory, term by term, and which one to take.

    Exit code 0 where one fits, 1 where none does. Sizes: g and GiB are powers of two, GB of ten.
    """
    shape = _shape(params, model)
    cluster, limits, seen = _machine(gpus, gpu_memory, nodes, host_memory_size, nvme)
    precision = precision or ("fp16" if seen and not all(d.bf16 for d in seen) else "bf16")
    changes = [parse_override(text) for text in overrides or ()]
    own = None if ds_config is None else read_own(ds_config, changes)
    micro = micro_of(own) if micro_batch is None else micro_batch
    batch = solve_batch(micro=micro, accumulation=accumulate, world_size=cluster.ranks)
    work, notes = _work(shape, batch.micro, seq, checkpointing, attention)
    if own is not None and micro_of(own) not in (None, batch.micro):
        notes += (f"{ds_config} says a micro batch of {micro_of(own)}, not {batch.micro}",)
    asked = Question(
        shape,
        cluster,
        limits,
        work,
        precision,
        (*shape.notes, *notes),
        accumulate,
        tuple(overrides or ()),
        ds_config,
    )
    candidates, refused = recipes_asked(asked, recipes, changes)
    asked = replace(asked, notes=(*asked.notes, *refused))
    if own is not None and ds_config is not None:
        candidates.append((ds_config, settings_of_own(asked, ds_config, own, changes)))
    advice = advise(candidates, shape, cluster, work, limits)
    with reader_may_leave():
        _show(asked, advice, as_json=as_json)
    raise typer.Exit(0 if advice.recommended else _NOTHING_FITS)


app.command(context_settings={"help_option_names": ["-h", "--help"]})(plan)


def _show(asked: Question, advice: Advice, *, as_json: bool) -> None:
    if as_json:
        from zlaunch.cli.memory_json import plan_json

        typer.echo(plan_json(asked, advice))
        return
    from zlaunch.cli.memory_table import print_plan

    print_plan(asked, advice)


def _shape(params: str | None, model: str | None) -> ModelShape:
    if (params is None) == (model is None):
        problem = "no model is given" if model is None else "--params and --model are both given"
        raise InputError(problem, hint="--params 7b, or --model with a folder or a config.json")
    if model is not None:
        return read_shape(model)
    return guess_shape(parse_count(params or "", "--params"))


def _machine(
    gpus: int | None, gpu_memory: str | None, nodes: int, host: str | None, nvme: str | None
) -> tuple[Cluster, Limits, tuple[Device, ...]]:
    """The GPUs that are asked for; what is not said is read from this machine."""
    size = parse_bytes(gpu_memory, "--gpu-memory") if gpu_memory else None
    seen: tuple[Device, ...] = ()
    if size is None:
        seen = _visible()
        size = min((device.memory for device in seen if device.memory), default=None)
        if size is None:
            raise InputError(
                "this machine has no GPU whose memory could be read",
                hint="say which GPUs are meant: --gpus 8 --gpu-memory 80GiB",
            )
    memory = parse_bytes(host, "--host-memory") if host else host_memory() if seen else None
    limits = Limits(size, memory, parse_bytes(nvme, "--nvme") if nvme else None)
    return Cluster(gpus or len(seen) or 1, nodes), limits, seen


def _visible() -> tuple[Device, ...]:
    devices = discover() or ()
    slots = set(visible_slots(os.environ.get("CUDA_VISIBLE_DEVICES"), devices))
    return tuple(device for device in devices if {device.index, device.uuid} & slots)


def _work(
    shape: ModelShape, micro_batch: int, seq: int | None, checkpointing: bool, attention: Attention
) -> tuple[Workload, tuple[str, ...]]:
    notes = []
    tokens = seq or shape.fixed_tokens or min(_SEQUENCE, shape.positions or _SEQUENCE)
    if shape.fixed_tokens:
        tokens = shape.fixed_tokens
        notes.append(f"a sample is one image, {tokens} tokens, whatever --seq says")
    elif seq is None:
        notes.append(f"{tokens} tokens a sample are assumed; --seq says another number")
    if shape.encoder_tokens and not shape.fixed_tokens:
        notes.append(f"its encoder always sees {shape.encoder_tokens} tokens; --seq is the text's")
    if shape.positions and tokens > shape.positions:
        notes.append(f"--seq {tokens} is beyond the {shape.positions} positions of this model")
    kind = shape.attention if attention == "auto" else attention
    if shape.only_eager and (attention == "sdpa" or (attention == "flash" and not shape.flash)):
        notes.append(f"{shape.name} has no {attention} attention in Transformers: eager is counted")
        kind = "eager"
    return Workload(micro_batch, tokens, checkpointing, kind), tuple(notes)
