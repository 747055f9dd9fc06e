"""Where recipes lie: beside the package in a checkout, inside it once installed."""

from __future__ import annotations

from pathlib import Path

import zlaunch
from zlaunch.cli.user_files import read_file
from zlaunch.errors import ConfigError

_PACKAGE = Path(zlaunch.__file__).parent


def recipe_sources() -> dict[str, str]:
    """Return the TOML text of each recipe that comes with zlaunch, by name."""
    for folder in (_PACKAGE / "recipes", _PACKAGE.parent / "recipes"):
        if folder.is_dir():
            return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.toml"))}
    raise ConfigError(f"the recipes are missing beside {_PACKAGE}", hint="install zlaunch again")


def with_own_recipe(name: str, sources: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Add the user's own recipe where `name` is a path; return its name and all sources.

    Raises ConfigError where it cannot be read.
    """
    if not name.endswith(".toml") and "/" not in name:
        return name, sources
    text = read_file(name, f"recipe {name}", error=ConfigError, encoding="utf-8")
    return name, {**sources, name: text}
