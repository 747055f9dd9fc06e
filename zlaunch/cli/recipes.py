"""`zlaunch recipes`: the named ways to train."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.recipe_files import recipe_sources
from zlaunch.cli.screen import in_last_column, screen_width
from zlaunch.dsconfig.recipes import Recipe, load_recipe, recipe_names

app = typer.Typer(
    help="The named ways to train.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def recipes() -> None:
    """Keep `list` a command of its own, however many there are."""


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="As a list of objects.")] = False,
) -> None:
    """List the recipes: ZeRO stage, where states and parameters lie, what each is for."""
    sources = recipe_sources()
    found = [load_recipe(name, sources) for name in recipe_names(sources)]
    rows = [_describe(recipe) for recipe in found]
    with reader_may_leave():
        if as_json:
            typer.echo(json.dumps(rows, indent=2))
            return
        headings = ("NAME", "STAGE", "OPTIMIZER", "PARAMETERS", "FOR")
        cells = [headings, *(tuple(str(value) for value in row.values()) for row in rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(headings) - 1)]
        screen = screen_width()
        for row in cells:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            typer.echo(in_last_column(padded, row[-1], screen))


def _describe(recipe: Recipe) -> dict[str, Any]:
    zero = recipe.config.get("zero_optimization", {})
    return {
        "name": recipe.name,
        "stage": zero.get("stage", 0) if recipe.deepspeed else "-",
        "optimizer": _device(zero.get("offload_optimizer")),
        "parameters": _device(zero.get("offload_param")),
        "description": recipe.description,
    }


def _device(section: Any) -> str:
    """Where an offloaded part lies."""
    device = section.get("device", "none") if isinstance(section, dict) else "none"
    return {"none": "GPU", "cpu": "host memory", "nvme": "NVMe"}.get(device, device)
