"""What the ds_config of a run has that its recipe alone would not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from zlaunch.cli.ds_config import make_ds_config
from zlaunch.cli.place import Devices
from zlaunch.cli.recipe_files import recipe_sources
from zlaunch.cli.request import Request
from zlaunch.dsconfig.difference import Difference, differences
from zlaunch.dsconfig.recipes import recipe_names
from zlaunch.errors import ZlaunchError
from zlaunch.frozen import frozen
from zlaunch.run.record import RunRecord


@frozen
class Changes:
    """`before` is the recipe's, `after` what was used; `said` is why there is no comparison."""

    recipe: str = ""
    found: tuple[Difference, ...] = ()
    said: str = ""


def changes_of(config: Mapping[str, Any] | None, record: RunRecord) -> Changes | None:
    """Compare with the recipe as it renders by itself for as many ranks; None: no ds_config."""
    if config is None:
        return None
    recipe = record.plan.get("recipe")
    if not isinstance(recipe, str) or not recipe:
        return Changes(said="It is not known which recipe it was made from.")
    try:
        if recipe not in recipe_names(recipe_sources()) and not recipe.endswith(".toml"):
            return Changes(said=f"It was made from {recipe}, not from a recipe.")
        made = make_ds_config(
            Request(script="", recipe=recipe), _target(record), record.world_size,
            _devices(record), os.environ,
        )  # fmt: skip
    except ZlaunchError as error:
        return Changes(said=f"The recipe {recipe} cannot be rendered here: {error.message}")
    if made.config is None:
        return Changes(said=f"The recipe {recipe} has no ds_config.")
    return Changes(recipe, differences(made.config, config))


def _target(record: RunRecord) -> Any:
    target = record.plan.get("target")
    return target if target in {"hf", "accelerate"} else "plain"


def _devices(record: RunRecord) -> Devices:
    try:
        on_cpu = record.plan["workers"][0]["env"]["DS_ACCELERATOR"] == "cpu"
    except (KeyError, IndexError, TypeError):
        on_cpu = False
    return Devices("cpu" if on_cpu else "cuda", (0,))
