"""`zlaunch config render`, `show` and `import`: a ds_config as JSON, to the screen or a file."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from zlaunch.cli.ds_config import DEFAULT_RECIPE, make_ds_config
from zlaunch.cli.named_config import config_of, read_named
from zlaunch.cli.options import (
    AccumulateOption,
    GlobalBatchOption,
    MicroBatchOption,
    OverridesOption,
)
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.place import Devices
from zlaunch.cli.request import Precision, Request, check
from zlaunch.dsconfig.render import to_json, whole_numbers
from zlaunch.errors import InputError

ConfigTarget = Literal["plain", "hf", "accelerate"]
OutputOption = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Not to the screen.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over FILE.")]


def _command() -> typer.Typer:
    return typer.Typer(rich_markup_mode=None, add_completion=False)


render_app, show_app, import_app = _command(), _command(), _command()
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
    world_size: Annotated[
        int, typer.Option("--world-size", metavar="N", min=1, help="Ranks that will train.")
    ] = 1,
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
    check(request)
    made = make_ds_config(request, target, world_size, Devices("cuda", (0,)), os.environ)
    if made.config is None:
        raise InputError(f"recipe {recipe} trains without DeepSpeed: it has no ds_config")
    _tell(made.notes)
    give(made.config, output, force=force)


@show_app.command(context_settings=_HELP)
def show(
    name: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A file, - for stdin, a recipe, or a run.")
    ],
) -> None:
    """Show a ds_config as DeepSpeed will read it: plain JSON, whole numbers as integers."""
    give(config_of(name), None, force=False)


@import_app.command(context_settings=_HELP)
def import_(
    name: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML, base64, Accelerate's; - for stdin.")
    ],
    output: OutputOption = None,
    force: ForceOption = False,
) -> None:
    """Turn a config of others into the ds_config.json that it means."""
    found = read_named(name)
    _tell((f"this is {found.kind}", *found.notes))
    give(found.config, output, force=force)


def give(config: Mapping[str, Any], output: str | None, *, force: bool) -> None:
    """Print the config, or write it to a file that is not there yet.

    Raises InputError.
    """
    text = to_json(whole_numbers(config))
    if output is None or output == "-":
        with reader_may_leave():
            typer.echo(text, nl=False)
        return
    path = Path(output)
    if not output or (os.path.lexists(path) and not path.is_file()):
        raise InputError(f"-o {output}: no file that can be written", hint="or: > FILE")
    if path.exists() and not force:
        raise InputError(f"{path} is there already", hint="--force writes over it")
    path = path.resolve()  # a link stays one, and what it leads to is written
    _write(path, text)
    _tell((f"written to {path}",))


def _write(path: Path, text: str) -> None:
    """Beside, and renamed: whoever reads it meanwhile reads a whole one."""
    try:
        fd, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
            umask = os.umask(0)
            os.umask(umask)
            Path(beside).chmod(0o666 & ~umask)
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def _tell(notes: tuple[str, ...]) -> None:
    for note in notes:
        print(f"zlaunch: {note}", file=sys.stderr)  # noqa: T201
