"""What a row of the tables of causes is, and how an exception finds its row.

A row is data: a pattern for `Type: message` of an uncaught exception, a title and the ways out,
both with the pattern's named groups filled in. Where data is not enough, `tell` is a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from typing import Any

from zlaunch.frozen import frozen
from zlaunch.insight.evidence import Evidence
from zlaunch.insight.tracebacks import Raised

_LONGEST = 16 << 10  # characters of a message that are looked at


class Kind(IntEnum):
    """How far a rank's end is its own doing; the lowest of a run is its culprit."""

    OWN = 0  # an error of its own, a signal that nobody of the run sent, an exit code
    MISFIT = 1  # it and its peers did not call the same: what each says names both
    WAITED = 2  # it waited for a peer for too long
    LOST = 3  # a peer was gone
    STOPPED = 4  # it was told to stop


@frozen
class Told:
    """A cause in words, of one rank."""

    title: str
    details: tuple[str, ...] = ()
    mends: tuple[str, ...] = ()


@frozen
class Case:
    """What a row's function is given."""

    found: re.Match[str]
    rank: int
    evidence: Evidence
    raised: Raised | None = None

    def group(self, name: str) -> str:
        """What a named group holds; empty where it took no part."""
        return (self.found.groupdict().get(name) or "").strip()


@frozen
class Row:
    """One cause. `where` has to be found in the file of a frame, where it is given."""

    code: str
    pattern: str
    title: str = ""
    mends: tuple[str, ...] = ()
    kind: Kind = Kind.OWN
    where: str = ""
    tell: Callable[[Case], Told] | None = None

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first needed: a run that ends well needs none."""
        return re.compile(self.pattern, re.DOTALL)

    def told(self, case: Case) -> Told:
        """The cause in words."""
        if self.tell is not None:
            return self.tell(case)
        values = _Values({k: _one_line(v or "") for k, v in case.found.groupdict().items()})
        title = self.title.format_map(values).rstrip(" :,")
        return Told(title, (), tuple(mend.format_map(values) for mend in self.mends))


class _Values(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return f"{{{key}}}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def row_for(
    raised: Raised, tables: Iterable[tuple[Row, ...]]
) -> tuple[Row, re.Match[str], Raised] | None:
    """The first row that an exception matches, or one that it was raised from."""
    rows = [row for table in tables for row in table]
    for one in raised.chain():
        for row in rows:
            found = row.compiled.search(one.text[:_LONGEST])
            if found and _in_place(row, one):
                return row, found, one
    return None


def _in_place(row: Row, raised: Raised) -> bool:
    """Whether it was raised where the row says; an exception of C++ has no frames."""
    files = [frame.file for frame in raised.frames]
    return not row.where or not files or any(re.search(row.where, file) for file in files)


def at_most(texts: Iterable[str], count: int) -> str:
    """`a, b and 3 more`."""
    listed = list(dict.fromkeys(texts))
    rest = len(listed) - count
    shown = ", ".join(listed[:count])
    return f"{shown} and {rest} more" if rest > 0 else shown


def setting(config: Mapping[str, object] | None, *path: str) -> object:
    """A value of the ds_config in use; None where there is none."""
    here: object = config
    for key in path:
        if not isinstance(here, Mapping):
            return None
        here = here.get(key)
    return here
