"""`zlaunch config init`: a few questions, with this machine's answers, and a ds_config.json."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from zlaunch.cli.config_render import (
    ConfigTarget,
    ForceOption,
    from_recipe,
    give,
    place_for,
    tell,
)
from zlaunch.cli.ds_config import DEFAULT_RECIPE
from zlaunch.cli.options import GlobalBatchOption, MicroBatchOption
from zlaunch.cli.place import Devices
from zlaunch.cli.recipe_files import recipe_sources
from zlaunch.cli.request import Precision, Request
from zlaunch.dsconfig.recipes import load_recipe, recipe_names
from zlaunch.errors import InputError, ZlaunchError
from zlaunch.frozen import frozen
from zlaunch.system.gpus import discover

_FILE = "ds_config.json"
_TARGETS = ("plain", "hf", "accelerate")


@frozen
class _Answers:
    """What is asked; the defaults are those of this machine."""

    target: ConfigTarget
    world_size: int
    recipe: str
    precision: Precision
    micro_batch: int | None
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
    micro_batch: MicroBatchOption = None,
    global_batch: GlobalBatchOption = None,
    learning_rate: Annotated[
        float | None, typer.Option("--lr", metavar="X", help="Of the optimizer; target plain.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help=f"Default: {_FILE}.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
    force: ForceOption = False,
) -> None:
    """Write a ds_config.json by answering a few questions; options answer them beforehand."""
    if output not in (None, "-"):
        place_for(str(output), force=force)  # before anything is asked
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
    _check(given)
    try:
        answers = _answers(given, _take_default if yes else _ask, force=force)
    except (KeyboardInterrupt, EOFError) as error:
        _say("\n")  # the prompt's line is not ended
        raise typer.Abort from error
    config, notes = from_recipe(_request(answers), answers.target, answers.world_size)
    tell(notes)
    give(config, answers.output, force=force)
    if answers.output != "-":
        reader = {"hf": "a script with the Trainer: ", "accelerate": "a script with Accelerate: "}
        way = f"zlaunch run --ds-config {shlex.quote(answers.output)} train.py"
        tell((f"train with: {reader.get(answers.target, '')}{way}",))


def _check(given: dict[str, Any]) -> None:
    """Refuse options with values that no answer may have."""
    for name in ("micro_batch", "global_batch"):
        if given[name] is not None and given[name] < 1:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} {given[name]}: at least one sample is needed")
    rate = given["learning_rate"]
    if rate is not None and not 0 <= rate < float("inf"):
        raise InputError(f"--lr {rate}: a number from 0 on is needed", hint="such as --lr 5e-5")


_Ask = Callable[[str, Any, Callable[[str], Any]], Any]


def _answers(given: dict[str, Any], ask: _Ask, *, force: bool) -> _Answers:
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
    micro, total, rate = given["micro_batch"], given["global_batch"], given["learning_rate"]
    if target == "plain":  # the others decide on batches and the optimizer by themselves
        micro = answer("micro_batch", "samples a step and rank (micro batch)", 4, _whole)
        total = answer(
            "global_batch", "samples an update (global batch)", micro * world_size, _whole
        )
        rate = answer("learning_rate", "learning rate", 5e-5, _positive)
    output = answer("output", "write to", _FILE, _free(force=force))
    return _Answers(target, world_size, recipe, precision, micro, total, rate, output)


def _request(answers: _Answers) -> Request:
    rate = answers.learning_rate
    if rate is not None and answers.target != "plain":
        raise InputError(
            f"--lr {rate}: with the target {answers.target} the script decides on it",
            hint="leave --lr out here, and give it to the script",
        )
    keys = ("optimizer.params.lr", "scheduler.params.warmup_max_lr") if rate is not None else ()
    return Request(
        script="",
        recipe=answers.recipe,
        precision=answers.precision,
        micro_batch=answers.micro_batch,
        global_batch=answers.global_batch,
        overrides=tuple(f"{key}={rate!r}" for key in keys),
    )


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
    """Ask until the answer can be read; Enter takes the default.

    Raises InputError where nobody is there to answer, and EOFError at the end of the input.
    """
    if not sys.stdin.isatty():
        hint = "--yes takes the defaults"
        raise InputError(f"there is no terminal to ask on: {question}?", hint=hint)
    while True:
        text = _line(f"{question} [{default}]: ") or str(default)
        if not text.isprintable():  # arrow keys come as escape sequences
            _say("  that holds keys that are no letters: type it again\n")
            continue
        try:
            return read(text)
        except ValueError as error:
            _say(f"  {error}\n")


def _line(prompt: str) -> str:
    """One line from the terminal."""
    _say(prompt)
    line = sys.stdin.buffer.readline()
    if not line:  # Ctrl-D
        raise EOFError
    return line.decode("utf-8", "replace").strip()


def _say(text: str) -> None:
    """On stderr: stdout is the config, where it is asked for there."""
    print(text, end="", file=sys.stderr, flush=True)  # noqa: T201


def _one_of(choices: tuple[str, ...] | list[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text

    return read


def _free(*, force: bool) -> Callable[[str], str]:
    """A place that can be written; else another is asked for, and no answer is lost."""

    def read(text: str) -> str:
        try:
            if text != "-":
                place_for(text, force=force)
        except InputError as error:
            raise ValueError(f"{error.message}: another name, or --force") from error
        return text

    return read


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) < 1:
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
