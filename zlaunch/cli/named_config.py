"""A ds_config that the user names: a file, `-`, a recipe, or a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zlaunch.cli.ds_config import make_ds_config
from zlaunch.cli.place import Devices
from zlaunch.cli.recipe_files import recipe_sources
from zlaunch.cli.request import Request
from zlaunch.cli.user_files import read_file, similar_files
from zlaunch.dsconfig.foreign import Imported, import_config
from zlaunch.dsconfig.recipes import merge, recipe_names
from zlaunch.dsconfig.source import parse_config
from zlaunch.errors import ConfigError, InputError
from zlaunch.spec.environment import Target
from zlaunch.system.rundir import RunStore, home_directory

STDIN = "-"


def read_named(name: str) -> Imported:
    """Return the ds_config behind a name, in whatever form it is written.

    A file that Accelerate's configuration names is read too. Raises InputError.
    """
    text, where = _text(name)
    return follow(import_config(text, where), where)


def follow(found: Imported, where: str) -> Imported:
    """Read the file that Accelerate's configuration at `where` names, if it names one."""
    if found.config_file is None:
        return found
    beside = Path(where).parent / found.config_file
    # Accelerate itself looks from the working directory; people keep the two side by side.
    path = Path(found.config_file) if Path(found.config_file).exists() else beside
    below = read_file(path, f"deepspeed_config_file {path}", error=ConfigError)
    config = merge(parse_config(below, str(path)), found.config)
    return Imported(config, found.kind, None, found.notes)


def _text(name: str) -> tuple[str, str]:
    """The text, and what its places are told with."""
    if name == STDIN:
        return sys.stdin.read(), "stdin"
    if Path(name).is_file():
        return read_file(name, f"config {name}", error=ConfigError), name
    run = _of_run(name)
    if run is not None:
        return read_file(run, f"the ds_config of {name}", error=ConfigError), str(run)
    if Path(name).exists() or "/" in name or name.endswith((".json", ".yaml", ".yml", ".hjson")):
        return read_file(name, f"config {name}", error=ConfigError), name
    raise InputError(
        f"{name} is no file, no recipe and no run", hint=similar_files(name) or "zlaunch recipes"
    )


def _of_run(name: str) -> Path | None:
    store = RunStore(home_directory(os.environ))
    try:
        run = store.find(name)
    except InputError:
        return None
    return run.ds_config if run.ds_config.is_file() else None


def config_of(name: str, *, target: Target = "plain", world_size: int = 1) -> Mapping[str, Any]:
    """Return the ds_config behind a name, which may be a recipe: that is rendered."""
    if name in recipe_names(recipe_sources()) or name.endswith(".toml"):
        made = make_ds_config(
            Request(script="", recipe=name), target, world_size, Devices("cuda", (0,)), os.environ
        )
        if made.config is None:
            raise InputError(f"recipe {name} trains without DeepSpeed: it has no ds_config")
        return made.config
    return read_named(name).config
