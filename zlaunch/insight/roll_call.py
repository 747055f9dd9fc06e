"""A roll-call: where all ranks of a run are, told so that the odd ones out come first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zlaunch.frozen import frozen
from zlaunch.insight.flight import Groups, describe_flight
from zlaunch.insight.stacks import Place, parse_stacks, place
from zlaunch.spec.ranks import describe_ranks

_MOST_PLACES = 6  # of one line
_MOST_RANGES = 8  # of ranks at one place
_NAMED_HOSTS = 2  # ranks at one place, for which the hosts are named too


@frozen
class Answer:
    """What one rank answered; `silent_for` is how long ago it wrote its last line, in seconds.

    Where `text` is empty, `why` says why.
    """

    host: str
    text: str = ""
    why: str = ""
    main: str = ""
    silent_for: float | None = None
    flight: Groups = ()


@frozen
class Group:
    """Ranks that are at the same place; `where` in words."""

    ranks: frozenset[int]
    where: str


@frozen
class RollCall:
    """All answers, and what they come to."""

    answers: Mapping[int, Answer]
    groups: tuple[Group, ...]
    flight: tuple[str, ...]

    @property
    def line(self) -> str:
        """`rank 3 in load_batch at data.py:17; ranks 0-2 in all_reduce at train.py:88`."""
        several = len({answer.host for answer in self.answers.values()}) > 1
        shown = [self._words(group, several) for group in self.groups[:_MOST_PLACES]]
        left = self.groups[_MOST_PLACES:]
        if left:
            ranks = sum(len(group.ranks) for group in left)
            shown.append(f"{ranks} ranks at {len(left)} other places")
        return "; ".join(shown)

    def _words(self, group: Group, several: bool) -> str:
        ranks = describe_ranks(group.ranks, _MOST_RANGES)
        if several and len(group.ranks) <= _NAMED_HOSTS:
            hosts = dict.fromkeys(self.answers[rank].host for rank in sorted(group.ranks))
            ranks += f" on {', '.join(hosts)}"
        return f"{ranks} {group.where}"

    def text(self, head: str) -> str:
        """The whole of it for a file: `head`, the line, and the stacks of every rank."""
        parts = [head, self.line, *self.flight, ""]
        for rank, answer in sorted(self.answers.items()):
            where = next(group.where for group in self.groups if rank in group.ranks)
            silent = answer.silent_for
            age = "" if silent is None else f", wrote last {silent:.0f} s ago"
            parts.append(f"=== rank {rank} on {answer.host} {where}{age}")
            parts.append(answer.text.rstrip("\n"))
        return "\n".join(parts) + "\n"

    def to_json(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "line": self.line,
            "groups": [{"ranks": sorted(g.ranks), "where": g.where} for g in self.groups],
            "flight": list(self.flight),
            "ranks": [
                {
                    "rank": rank,
                    "host": answer.host,
                    "silent_for": answer.silent_for,
                    "why": answer.why or None,
                    "stacks": answer.text or None,
                }
                for rank, answer in sorted(self.answers.items())
            ],
        }


def call_roll(answers: Mapping[int, Answer]) -> RollCall:
    """Group the ranks by where they are; small groups first."""
    places: dict[Place | str, set[int]] = {}
    for rank, answer in answers.items():
        places.setdefault(_where(answer), set()).add(rank)
    groups = [Group(frozenset(ranks), _in_words(where)) for where, ranks in places.items()]
    groups.sort(key=lambda group: (len(group.ranks), min(group.ranks)))
    flight = describe_flight({rank: answer.flight for rank, answer in answers.items()})
    return RollCall(answers, tuple(groups), tuple(flight))


def _where(answer: Answer) -> Place | str:
    found = place(parse_stacks(answer.text, answer.main)) if answer.text else None
    return found or answer.why or "nothing of Python is running"


def _in_words(where: Place | str) -> str:
    return str(where) if isinstance(where, Place) else f"({where})"
