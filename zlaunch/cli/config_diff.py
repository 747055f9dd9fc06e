"""`zlaunch config diff`: what differs between two ds_configs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from zlaunch.cli.config_render import ConfigTarget, WorldSizeOption
from zlaunch.cli.named_config import config_of
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.dsconfig.difference import ABSENT, Difference, differences

_DIFFERENT = 1  # as of diff(1)


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A file, -, a recipe, or a run.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    world_size: WorldSizeOption = 1,
    target: Annotated[ConfigTarget, typer.Option("--target", help="For recipes.")] = "plain",
    as_json: Annotated[bool, typer.Option("--json", help="As a list of objects.")] = False,
) -> None:
    """Show what differs between two ds_configs, key by key; exit code 1 where something does."""
    found = differences(
        config_of(before, target=target, world_size=world_size),
        config_of(after, target=target, world_size=world_size),
    )
    with reader_may_leave():
        if as_json:
            typer.echo(json.dumps([_as_data(one) for one in found], indent=2))
        else:
            for one in found:
                typer.echo(_line(one))
    raise typer.Exit(_DIFFERENT if found else 0)


def _line(one: Difference) -> str:
    if one.before is ABSENT:
        return f"+ {one.path}: {json.dumps(one.after)}"
    if one.after is ABSENT:
        return f"- {one.path}: {json.dumps(one.before)}"
    return f"  {one.path}: {json.dumps(one.before)} -> {json.dumps(one.after)}"


def _as_data(one: Difference) -> dict[str, Any]:
    sides = {"before": one.before, "after": one.after}
    return {"path": one.path, **{name: v for name, v in sides.items() if v is not ABSENT}}
