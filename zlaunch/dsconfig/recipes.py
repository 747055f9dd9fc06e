"""Recipes: named ways to train, as TOML text.

    description = "one line"
    extends = "zero2"                 # optional; tables are merged, this recipe wins
    deepspeed = true                  # false: the script trains without DeepSpeed
    [config]                          # mirrors the keys of ds_config.json
    [precision.fp16]                  # laid into the config when that precision is chosen

Names that begin with "_" can be extended but are not offered.
"""

from __future__ import annotations

import copy
import difflib
import re
import sys
from collections.abc import Mapping
from typing import Any

from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS: dict[str, type] = {
    "description": str,
    "extends": str,
    "deepspeed": bool,
    "config": dict,
    "precision": dict,
}
_WORDS = {str: "text in quotes", bool: "true or false", dict: "a table"}


@frozen
class Recipe:
    """A recipe with everything it extends merged in.

    `config` and `precisions` are fresh copies. `chain` names the recipe and what it extends,
    nearest first. A recipe without DeepSpeed has an empty `config`.
    """

    name: str
    description: str
    deepspeed: bool
    config: dict[str, Any]
    precisions: dict[str, dict[str, Any]]
    chain: tuple[str, ...]


def recipe_names(sources: Mapping[str, str]) -> tuple[str, ...]:
    """The names a user may ask for, sorted."""
    return tuple(sorted(name for name in sources if not name.startswith("_")))


def load_recipe(name: str, sources: Mapping[str, str]) -> Recipe:
    """The recipe `name` from `sources`, which maps a recipe's name to its TOML text.

    Raises `ConfigError` for an unknown name, a circle or an unknown name in `extends`, text
    that is not TOML (with `name:line:column`), and a key that a recipe does not have.
    """
    if name not in sources or name.startswith("_"):
        raise _unknown(name, sources)
    tables = _chain(name, sources)
    config: dict[str, Any] = {}
    precisions: dict[str, dict[str, Any]] = {}
    deepspeed = True
    for table in reversed(tables.values()):
        config = merge(config, table.get("config", {}))
        precisions = merge(precisions, table.get("precision", {}))
        deepspeed = table.get("deepspeed", deepspeed)
    if not deepspeed and config:
        raise ConfigError(
            f'recipe "{name}" has a [config] but runs without DeepSpeed',
            where=name,
            hint="remove `deepspeed = false` or the [config] table",
        )
    description = tables[name].get("description", "")
    return Recipe(name, description, deepspeed, config, precisions, tuple(tables))


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """A new table with `above` laid over `below`; tables are merged, other values replaced."""
    merged = copy.deepcopy(dict(below))
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, dict) and isinstance(value, Mapping):
            merged[key] = merge(under, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def _chain(name: str, sources: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The tables of `name` and of what it extends, nearest first."""
    tables: dict[str, dict[str, Any]] = {}
    current: str | None = name
    while current is not None:
        tables[current] = _parse(current, sources[current])
        below = tables[current].get("extends")
        if below in tables:
            circle = " -> ".join([*tables, below])
            raise ConfigError(f"recipes extend each other in a circle: {circle}", where=current)
        if below is not None and below not in sources:
            raise _unknown(below, sources, where=current)
        current = below
    return tables


def _parse(name: str, text: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, line, column = _position(str(error), text)
        raise ConfigError(
            f"this recipe is not TOML: {reason}", where=f"{name}:{line}:{column}"
        ) from None
    for key, value in table.items():
        if key not in _KEYS:
            raise ConfigError(f'a recipe has no key "{key}"', where=name, hint=_key_hint(key))
        if not isinstance(value, _KEYS[key]):
            raise ConfigError(f'"{key}" has to be {_WORDS[_KEYS[key]]}', where=name)
    for precision, section in table.get("precision", {}).items():
        if not isinstance(section, dict):
            raise ConfigError(f'"precision.{precision}" has to be a table', where=name)
    return table


def _position(reason: str, text: str) -> tuple[str, int, int]:
    """The reason without its place, and the place; tomllib puts it into the message only."""
    found = re.search(r" \(at line (\d+), column (\d+)\)$", reason)
    if found:
        return reason[: found.start()], int(found[1]), int(found[2])
    lines = text.split("\n")
    return reason.removesuffix(" (at end of document)"), len(lines), len(lines[-1]) + 1


def _key_hint(key: str) -> str:
    near = difflib.get_close_matches(key, _KEYS, 1)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"keys of ds_config.json belong under [config]; a recipe has {', '.join(_KEYS)}"


def _unknown(name: str, sources: Mapping[str, str], *, where: str | None = None) -> ConfigError:
    names = recipe_names(sources)
    near = difflib.get_close_matches(name, names if where is None else sources, 3)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return ConfigError(
        f'no recipe is called "{name}"',
        where=where,
        hint=f"{meant}the recipes are {', '.join(names)}",
    )
