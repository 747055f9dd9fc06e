"""Lists of ranks: as people type them, such as `0,-1`, `3-5` or `all`, and as they are told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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


def the_rank(asked: int, world_size: int, option: str) -> int:
    """Return the one rank that was asked for; a negative one counts from the end."""
    return _rank(str(asked), world_size, option)


def _rank(number: str, world_size: int, option: str) -> int:
    asked = int(number)
    rank = asked + world_size if asked < 0 else asked
    if not 0 <= rank < world_size:
        raise InputError(
            f"{option} asks for rank {asked}, but the world size is {world_size}",
            hint=f"ranks run from 0 to {world_size - 1}, or from -1 back to -{world_size}",
        )
    return rank


def describe_ranks(ranks: Iterable[int], most: int | None = None) -> str:
    """`rank 3`, `ranks 0, 2-7`; beyond `most` ranges the others are counted."""
    spans: list[list[int]] = []
    told = sorted(set(ranks))
    for rank in told:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    shown = spans[:most]
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in shown)
    left = sum(b - a + 1 for a, b in spans[len(shown) :])
    text += f" and {left} others" if left else ""
    return f"rank{'s' if len(told) != 1 else ''} {text}"


def rank_labels(hosts: Mapping[int, str], world_size: int, nodes: int) -> dict[int, str]:
    """The tag of each rank: `host:rank`, or the rank alone on one node; all of one width."""
    width = len(str(world_size - 1))
    if nodes == 1:
        return {rank: f"{rank:>{width}}" for rank in hosts}
    texts = {rank: f"{host}:{rank}" for rank, host in hosts.items()}
    widest = max(map(len, texts.values()))
    return {rank: text.ljust(widest) for rank, text in texts.items()}
