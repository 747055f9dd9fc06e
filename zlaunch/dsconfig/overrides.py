"""Overrides: single keys of a ds_config set by the user, as `zero_optimization.stage=3`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from zlaunch.dsconfig.keypath import Kind, Path, kind_of, nearest, removed
from zlaunch.dsconfig.values import RefusedError, read_value
from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen


@frozen
class Override:
    """One key and its new value; `None` takes the key out of the config."""

    path: Path
    value: Any

    @property
    def key(self) -> str:
        """The path as the user wrote it."""
        return ".".join(self.path)


def parse_override(text: str) -> Override:
    """The override that `text` (`KEY=VALUE`, KEY dotted) asks for.

    The value is JSON or a bare word, read for the kind of the key: `5e8` and `5_000` are
    integers where DeepSpeed wants one. `null` takes the key out. Raises `ConfigError` for a
    text without `=`, a key that DeepSpeed does not have, and a value of the wrong kind.
    """
    where = f"--set {text}"
    key, equals, written = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise ConfigError(
            "this has to be KEY=VALUE",
            where=where,
            hint="for example --set zero_optimization.stage=3",
        )
    kind = kind_of(path)
    if kind is None:
        raise _unknown(path, where)
    try:
        value = read_value(written, kind)
    except RefusedError as refused:
        raise ConfigError(
            f'"{".".join(path)}" has to be {refused}, not {written.strip() or "nothing"}',
            where=where,
            hint=_value_hint(path, kind),
        ) from None
    if isinstance(value, dict):
        _check_section(path, value, where)
    return Override(path, value)


def apply_overrides(config: Mapping[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """A new config with the overrides laid in, in their order; the last one for a key wins.

    Sections on the way are made. Raises `ConfigError` where the way leads through a value.
    """
    changed = copy.deepcopy(dict(config))
    for override in overrides:
        _apply(changed, override)
    return changed


def _apply(config: dict[str, Any], override: Override) -> None:
    table = config
    for depth, name in enumerate(override.path[:-1], start=1):
        if override.value is None and name not in table:
            return
        below = table.setdefault(name, {})
        if not isinstance(below, dict):
            held = ".".join(override.path[:depth])
            raise ConfigError(
                f'"{override.key}" cannot be set: "{held}" is {below!r} in this config,'
                " not a section",
                hint=f"first take it out with --set {held}=null",
            )
        table = below
    if override.value is None:
        table.pop(override.path[-1], None)
    else:
        table[override.path[-1]] = copy.deepcopy(override.value)


def _check_section(path: Path, section: Mapping[str, Any], where: str) -> None:
    """Refuses keys that DeepSpeed does not have inside a section given as one JSON object."""
    for name, value in section.items():
        below = (*path, name)
        if kind_of(below) is None:
            raise _unknown(below, where)
        if isinstance(value, dict):
            _check_section(below, value, where)


def _unknown(path: Path, where: str) -> ConfigError:
    key = ".".join(path)
    if removed(path):
        return ConfigError(f'"{key}" was taken out of DeepSpeed', where=where)
    near = nearest(path)
    return ConfigError(
        f'DeepSpeed has no key "{key}"',
        where=where,
        hint=f"did you mean {' or '.join(near)}?" if near else None,
    )


def _value_hint(path: Path, kind: Kind) -> str | None:
    if kind == "section":
        return f"set one of its keys, as {'.'.join(path)}.KEY=VALUE"
    return None
