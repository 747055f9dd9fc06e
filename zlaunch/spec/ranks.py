"""The lists of ranks that people type, such as `0,-1`, `3-5` or `all`."""

from __future__ import annotations

import re

from zlaunch.errors import InputError

_ENTRY = re.compile(r"(-?[0-9]{1,9})(?:-(-?[0-9]{1,9}))?")


def parse_ranks(text: str, world_size: int, option: str = "--console-ranks") -> frozenset[int]:
    """Read ranks out of 0 to `world_size` - 1; a negative one counts from the end."""
    if text.strip() == "all":
        return frozenset(range(world_size))
    ranks: set[int] = set()
    for token in (part.strip() for part in text.split(",")):
        entry = _ENTRY.fullmatch(token)
        if entry is None:
            raise InputError(
                f"{option} {text!r} holds {token!r} where a rank is expected",
                hint="write ranks (0,3), ranges (3-5), -1 for the last one, or all",
            )
        first = _rank(entry[1], world_size, option)
        last = _rank(entry[2] or entry[1], world_size, option)
        if last < first:
            raise InputError(f"{option} {text!r} has a range that runs backwards: {token}")
        ranks.update(range(first, last + 1))
    return frozenset(ranks)


def _rank(number: str, world_size: int, option: str) -> int:
    asked = int(number)
    rank = asked + world_size if asked < 0 else asked
    if not 0 <= rank < world_size:
        raise InputError(
            f"{option} asks for rank {asked}, but the world size is {world_size}",
            hint=f"ranks run from 0 to {world_size - 1}, or from -1 back to -{world_size}",
        )
    return rank
