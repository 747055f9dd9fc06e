"""`--wait [DURATION]`, an option whose value may be left out, in front of a script's name."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any

from typer.core import TyperCommand

from zlaunch.errors import InputError

_FOR_EVER = "forever"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)")


class WithWait(TyperCommand):
    """A command that has the option: `--wait` alone, `--wait 2h`, `--wait=2h`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Give `--wait` a value, where what follows it is none."""
        valued = [
            name
            for option in self.params
            if getattr(option, "is_flag", None) is False
            for name in option.opts
        ]
        return super().parse_args(ctx, with_value(args, valued))


def with_value(args: Sequence[str], valued: Collection[str]) -> list[str]:
    """Write `--wait` with a value; `valued` are the options that have one. The rest is left."""
    done, rest = [], list(args)
    while rest and rest[0].startswith("-") and rest[0] not in {"-", "--"}:
        option = rest.pop(0)
        if option == "--wait":
            given = rest and _DURATION.fullmatch(rest[0])
            done.append(f"--wait={rest.pop(0) if given else _FOR_EVER}")
            continue
        done.append(option)
        if option.replace("_", "-") in valued and rest:
            done.append(rest.pop(0))
    return [*done, *rest]


def read_duration(text: str | None) -> float:
    """Return the value of --wait in seconds: 0 where it was not given, inf where it has no end.

    Raises InputError.
    """
    if text is None:
        return 0.0
    if text == _FOR_EVER:
        return math.inf
    found = _DURATION.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not seconds:
        raise InputError(
            f"--wait {text!r} is no duration", hint="90s, 15m, 2h or 1d; or --wait alone"
        )
    return seconds
