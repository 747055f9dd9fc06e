"""`zlaunch config render` and `show`: a ds_config as JSON, to the screen or a file."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from zlaunch.cli.ds_config import DEFAULT_RECIPE, make_ds_config
from zlaunch.cli.lint_run import Circumstances, lint_config
from zlaunch.cli.named_config import config_of
from zlaunch.cli.options import (
    AccumulateOption,
    GlobalBatchOption,
    MicroBatchOption,
    OverridesOption,
)
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.place import Devices
from zlaunch.cli.recipe_files import recipe_sources, with_own_recipe
from zlaunch.cli.request import Precision, Request, check
from zlaunch.dsconfig.recipes import load_recipe, recipe_names
from zlaunch.dsconfig.render import to_json, whole_numbers
from zlaunch.errors import InputError

ConfigTarget = Literal["plain", "hf", "accelerate"]
WorldSizeOption = Annotated[
    int, typer.Option("--world-size", metavar="N", min=1, help="Ranks that will train.")
]
OutputOption = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Not to the screen.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over FILE.")]


def _command() -> typer.Typer:
    return typer.Typer(rich_markup_mode=None, add_completion=False)


render_app, show_app = _command(), _command()
_HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


@render_app.command(context_settings=_HELP)
def render(
    recipe: Annotated[
        str, typer.Argument(metavar="[RECIPE]", help="zero2, zero3, ... or FILE.toml.")
    ] = DEFAULT_RECIPE,
    precision: Annotated[
        Precision | None, typer.Option("--precision", help="Default: bf16.")
    ] = None,
    overrides: OverridesOption = None,
    micro_batch: MicroBatchOption = None,
    global_batch: GlobalBatchOption = None,
    accumulate: AccumulateOption = None,
    world_size: WorldSizeOption = 1,
    target: Annotated[ConfigTarget, typer.Option("--target", help="Who reads it.")] = "plain",
    output: OutputOption = None,
    force: ForceOption = False,
) -> None:
    """Write the ds_config.json that a recipe makes for so many ranks."""
    request = Request(
        script="",
        recipe=recipe,
        precision=precision,
        overrides=tuple(overrides or ()),
        micro_batch=micro_batch,
        global_batch=global_batch,
        accumulate=accumulate,
    )
    config, notes = from_recipe(request, target, world_size)
    tell(notes)
    give(config, output, force=force)


def from_recipe(
    request: Request, target: ConfigTarget, world_size: int
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The ds_config that a recipe makes, and what is to be said of it.

    Raises InputError where it would not train as written: nothing is to be written then.
    """
    check(request)
    name = request.recipe or DEFAULT_RECIPE
    if not load_recipe(*with_own_recipe(name, recipe_sources())).deepspeed:
        others = (other for other in recipe_names(recipe_sources()) if other != name)
        raise InputError(
            f"recipe {name} trains without DeepSpeed: it has no ds_config",
            hint=f"another recipe: {', '.join(others)}",
        )
    made = make_ds_config(request, target, world_size, Devices("cuda", (0,)), os.environ)
    config = made.config or {}
    around = Circumstances(os.environ, None, target, world_size, written=True)
    return config, (*made.notes, *lint_config(config, f"recipe {name}", around))


@show_app.command(context_settings=_HELP)
def show(
    name: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A file, - for stdin, a recipe, or a run.")
    ],
) -> None:
    """Show a ds_config as DeepSpeed will read it: plain JSON, whole numbers as integers."""
    give(config_of(name), None, force=False)


def give(config: Mapping[str, Any], output: str | None, *, force: bool) -> None:
    """Print the config, or write it to a file that is not there yet.

    Raises InputError.
    """
    text = to_json(whole_numbers(config))
    if output is None or output == "-":
        with reader_may_leave():
            typer.echo(text, nl=False)
        return
    path = place_for(output, force=force)
    write_beside(path, text)
    tell((f"written to {path}",))


def place_for(output: str, *, force: bool) -> Path:
    """Where -o leads to; a link stays one, and what it leads to is written.

    Raises InputError where nothing can be written, or something is there that is to stay.
    """
    path = Path(output)
    try:
        taken = os.path.lexists(path)
        plain = path.is_file() or not taken
        target = path.resolve()
        missing, open_ = not target.parent.is_dir(), os.access(target.parent, os.W_OK | os.X_OK)
    except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL, a loop of links
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{output} cannot be written: {reason}") from error
    if not output or not plain:
        raise InputError(f"-o {output}: no file that can be written", hint="or: > FILE")
    if taken and not force:
        raise InputError(f"{path} is there already", hint="--force writes over it")
    if missing or not open_:
        reason = (
            "there is no such directory" if missing else "the directory is not yours to write to"
        )
        raise InputError(f"{path} cannot be written: {reason}")
    return target


def write_beside(path: Path, text: str, *, mode: int | None = None) -> None:
    """Beside, and renamed: whoever reads it meanwhile reads a whole one.

    Its `mode` is what the umask leaves, unless one is given. Raises InputError.
    """
    try:
        fd, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
            if mode is None:
                umask = os.umask(0)
                os.umask(umask)
                mode = 0o666 & ~umask
            Path(beside).chmod(mode)
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def tell(notes: tuple[str, ...]) -> None:
    """Say on stderr what the user should know."""
    for note in notes:
        print(f"zlaunch: {note}", file=sys.stderr)  # noqa: T201
