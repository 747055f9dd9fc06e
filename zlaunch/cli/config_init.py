"""`zlaunch config init`: a few questions, with this machine's answers, and a ds_config.json."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from zlaunch.cli.config_render import ConfigTarget, ForceOption, give
from zlaunch.cli.ds_config import DEFAULT_RECIPE, make_ds_config
from zlaunch.cli.place import Devices
from zlaunch.cli.recipe_files import recipe_sources
from zlaunch.cli.request import Precision, Request, check
from zlaunch.dsconfig.recipes import load_recipe, recipe_names
from zlaunch.errors import InputError, ZlaunchError
from zlaunch.system.gpus import discover

_FILE = "ds_config.json"
_TARGETS = ("plain", "hf", "accelerate")


@dataclass(frozen=True)
class _Answers:
    """What is asked; the defaults are those of this machine."""

    target: ConfigTarget
    world_size: int
    recipe: str
    precision: Precision
    micro_batch: int
    global_batch: int | None
    learning_rate: float | None
    output: str


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def init(
    target: Annotated[
        ConfigTarget | None, typer.Option("--target", help="Who reads the file.")
    ] = None,
    world_size: Annotated[
        int | None, typer.Option("--world-size", metavar="N", min=1, help="Ranks that will train.")
    ] = None,
    recipe: Annotated[str | None, typer.Option("--recipe", "-r", help="zero2, zero3, ...")] = None,
    precision: Annotated[Precision | None, typer.Option("--precision", help="Of training.")] = None,
    micro_batch: Annotated[
        int | None, typer.Option("--micro-batch", metavar="N", min=1, help="Samples a step, GPU.")
    ] = None,
    global_batch: Annotated[
        int | None, typer.Option("--global-batch", metavar="N", min=1, help="Samples an update.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--lr", metavar="X", help="Of the optimizer.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help=f"Default: {_FILE}.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
    force: ForceOption = False,
) -> None:
    """Write a ds_config.json by answering a few questions; options answer them beforehand."""
    if not yes and not sys.stdin.isatty():
        raise InputError("there is no terminal to ask on", hint="--yes takes the defaults")
    ask = _take_default if yes else _ask
    given = {
        "target": target,
        "world_size": world_size,
        "recipe": recipe,
        "precision": precision,
        "micro_batch": micro_batch,
        "global_batch": global_batch,
        "learning_rate": learning_rate,
        "output": output,
    }
    answers = _answers(given, ask)
    made = _make(answers)
    give(made, answers.output, force=force)
    way = {"plain": f"zlaunch run --ds-config {answers.output} train.py"}
    hint = way.get(answers.target, f"zlaunch run --ds-config {answers.output} --target auto ...")
    print(f"zlaunch: train with: {hint}", file=sys.stderr)  # noqa: T201


_Ask = Callable[[str, Any, Callable[[str], Any]], Any]


def _answers(given: dict[str, Any], ask: _Ask) -> _Answers:
    devices = _devices()
    ranks = len(devices.slots)
    names = [name for name in recipe_names(recipe_sources()) if _has_config(name)]

    def answer(name: str, question: str, default: Any, read: Callable[[str], Any]) -> Any:
        return given[name] if given[name] is not None else ask(question, default, read)

    who = "who reads it: plain (deepspeed.initialize), hf (Trainer) or accelerate"
    target = answer("target", who, "plain", _one_of(_TARGETS))
    world_size = answer("world_size", "how many ranks will train", ranks, _whole)
    recipe = answer("recipe", f"recipe: {', '.join(names)}", DEFAULT_RECIPE, _one_of(names))
    bf16 = "bf16" if devices.bf16 else "fp16"
    precision = answer("precision", "precision", bf16, _one_of(("bf16", "fp16", "fp32")))
    if target == "plain":  # the others decide on batches and the optimizer by themselves
        micro = answer("micro_batch", "samples a step and rank (micro batch)", 4, _whole)
        total = answer(
            "global_batch", "samples an update (global batch)", micro * world_size, _whole
        )
        rate = answer("learning_rate", "learning rate", 5e-5, _positive)
    else:
        micro, total, rate = given["micro_batch"], given["global_batch"], given["learning_rate"]
    output = answer("output", "write to", _FILE, str)
    return _Answers(target, world_size, recipe, precision, micro, total, rate, output)


def _make(answers: _Answers) -> dict[str, Any]:
    request = Request(
        script="",
        recipe=answers.recipe,
        precision=answers.precision,
        micro_batch=answers.micro_batch,
        global_batch=answers.global_batch,
    )
    if answers.learning_rate is not None:
        rate = repr(answers.learning_rate)
        keys = ("optimizer.params.lr", "scheduler.params.warmup_max_lr")
        request = replace(request, overrides=tuple(f"{key}={rate}" for key in keys))
    check(request)
    made = make_ds_config(
        request, answers.target, answers.world_size, Devices("cuda", (0,)), os.environ
    )
    if made.config is None:
        raise InputError(f"recipe {answers.recipe} trains without DeepSpeed: it has no ds_config")
    return dict(made.config)


def _devices() -> Devices:
    """This machine's GPUs, or one CPU worker where there is none."""
    try:
        found = discover()
    except ZlaunchError:
        found = None
    if not found:
        return Devices("cpu", (0,))
    return Devices("cuda", tuple(gpu.index for gpu in found), all(gpu.bf16 for gpu in found))


def _has_config(name: str) -> bool:
    return load_recipe(name, recipe_sources()).deepspeed


# Asking


def _take_default(_question: str, default: Any, _read: Callable[[str], Any]) -> Any:
    return default


def _ask(question: str, default: Any, read: Callable[[str], Any]) -> Any:
    """Ask until the answer can be read; Enter takes the default."""
    while True:
        text = typer.prompt(question, default=str(default), err=True)
        try:
            return read(text.strip())
        except ValueError as error:
            print(f"  {error}", file=sys.stderr)  # noqa: T201


def _one_of(choices: tuple[str, ...] | list[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text

    return read


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number from 1 on")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("a number above 0, such as 5e-5")
    return number
