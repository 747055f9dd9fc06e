"""The name of a run: what `--name` may be."""

from __future__ import annotations

import re

from zlaunch.errors import InputError

_LONGEST = 60  # characters: a column of `zlaunch ps`
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}(_[0-9]+)?")


def check_name(name: str) -> None:
    """Raise InputError where it could not be shown, typed, or told from an id later."""
    if not name.isprintable():
        raise InputError(f"--name {name!r} cannot be shown as it is", hint="letters, digits, .-_")
    if name.startswith("-"):
        raise InputError(
            f"--name {name!r} would be taken for an option", hint="begin with a letter"
        )
    if len(name) > _LONGEST:
        raise InputError(
            f"--name {name[:20]!r}... has {len(name)} characters", hint=f"{_LONGEST} at most"
        )
    if _RUN_ID.fullmatch(name):
        raise InputError(f"--name {name} has the form of a run's id", hint="choose another")
