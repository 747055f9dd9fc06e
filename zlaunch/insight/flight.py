"""What the ranks' flight recorders say together: who is at which collective of a process group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zlaunch.frozen import frozen
from zlaunch.spec.ranks import describe_ranks

Groups = Sequence[Mapping[str, Any]]
"""What `agent/flight.py` tells of one rank: an object a process group."""

_MOST = 4  # process groups that are told of


@frozen
class At:
    """A collective: its number within the group, and what it is."""

    number: int
    operation: str
    sizes: str
    over: bool

    def __str__(self) -> str:
        sizes = f" of {self.sizes}" if self.sizes and self.sizes != "[]" else ""
        return f"{'past' if self.over else 'in'} {self.operation} number {self.number}{sizes}"


def describe_flight(recorders: Mapping[int, Groups]) -> list[str]:
    """Return a line for each process group whose ranks are not all at the same place.

    Where all are, one line says so of the groups in which a collective is still under way.
    """
    groups: dict[str, dict[int, Mapping[str, Any]]] = {}
    words: dict[str, str] = {}
    for rank, told in recorders.items():
        for one in told:
            groups.setdefault(one["group"], {})[rank] = one
            words[one["group"]] = one.get("words") or one["group"]
    lines = []
    for name, members in groups.items():
        places: dict[At, set[int]] = {}
        for rank, one in members.items():
            places.setdefault(_at(one), set()).add(rank)
        if len(places) > 1 or not all(at.over for at in places):
            lines.append(f"{words[name]}: {_line(places)}")
    return lines[:_MOST]


def _at(one: Mapping[str, Any]) -> At:
    over = one["state"] == "completed" or one["completed"] >= one["number"]
    return At(one["number"], one["operation"], one["sizes"], over)


def _line(places: Mapping[At, set[int]]) -> str:
    """The ranks that are behind first: others wait for them."""
    ordered = sorted(places.items(), key=lambda item: (item[0].number, not item[0].over))
    return "; ".join(f"{describe_ranks(frozenset(ranks))} {at}" for at, ranks in ordered)
