"""Folds tracebacks that are equal but for what differs from rank to rank."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from zlaunch.insight.evidence import Traceback


def folded(shown: Iterable[tuple[int, Sequence[str]]]) -> tuple[Traceback, ...]:
    """Group the lines of ranks that are equal but for what differs from rank to rank."""
    groups: dict[str, tuple[list[int], Sequence[str]]] = {}
    for rank, lines in shown:
        same = "\n".join(map(_frame_or_message, lines))
        ranks, _ = groups.setdefault(same, ([], lines))
        if rank not in ranks:
            ranks.append(rank)
    return tuple(Traceback(tuple(ranks), tuple(lines)) for ranks, lines in groups.values())


_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_VARIES = re.compile(
    r"0x[0-9a-fA-F]+|\b(?:[Rr]ank|pid|PID|GPU|cuda:?|process|port|device)[ =:]?\[?\d+"
    r"|\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?|(?<=\]):\d+|\btorch_\d+_\d+_\d+"
)


def _frame_or_message(line: str) -> str:
    """A frame by its file and line number; of whatever else is said no number counts."""
    return alike(line) if line.lstrip().startswith('File "') else _NUMBER.sub("#", alike(line))


def alike(text: str) -> str:
    """The text without what differs from rank to rank: numbers of ranks, addresses, times."""
    return _VARIES.sub("#", text)
