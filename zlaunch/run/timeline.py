"""When each rank ran in each attempt, and how that ended; from the events of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from zlaunch.frozen import frozen

RUNNING: Final = "running"
WELL: Final = "ended well"
FAILED: Final = "failed"
STOPPED: Final = "was stopped"
LOST: Final = "lost"
REFUSED: Final = "was not started"

_MOST_MARKS = 200


@frozen
class Span:
    """A rank in an attempt. `began` and `ended` are seconds since the epoch.

    `how` is one of the constants above; of what is lost or running no end is known.
    """

    rank: int
    attempt: int
    began: float
    ended: float | None = None
    how: str = RUNNING
    code: int | None = None
    signal: int | None = None
    pid: int | None = None


@frozen
class Mark:
    """Something that happened to the whole run; a `signal` belongs behind the text."""

    at: float
    text: str
    signal: int | None = None


@frozen
class Timeline:
    """All of it, in the order of attempts and ranks."""

    spans: tuple[Span, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def attempts(self) -> int:
        """In how many attempts a rank was started."""
        return 1 + max((span.attempt for span in self.spans), default=-1)

    def first_failures(self) -> dict[int, Span]:
        """Of each attempt the rank that failed first."""
        found: dict[int, Span] = {}
        for span in self.spans:
            if span.how == FAILED and span.ended is not None:
                first = found.get(span.attempt)
                if first is None or span.ended < (first.ended or 0):
                    found[span.attempt] = span
        return found


def timeline(events: Iterable[Mapping[str, Any]], world_size: int, *, over: bool) -> Timeline:
    """Read events.jsonl; of a run that is `over`, what has no end is lost."""
    spans: dict[tuple[int, int], Span] = {}
    latest: dict[int, int] = {}
    marks: list[Mark] = []
    for event in events:
        at, rank = event.get("at"), event.get("rank")
        if not isinstance(at, (int, float)):
            continue
        if isinstance(rank, int) and 0 <= rank < world_size:
            _take(event, rank, at, spans, latest)
        elif len(marks) < _MOST_MARKS and (mark := _mark(event, at)) is not None:
            marks.append(mark)
    ordered = [spans[key] for key in sorted(spans)]
    if over:
        ordered = [replace(s, how=LOST) if s.how == RUNNING else s for s in ordered]
    return Timeline(tuple(ordered), tuple(marks))


def _take(
    event: Mapping[str, Any],
    rank: int,
    at: float,
    spans: dict[tuple[int, int], Span],
    latest: dict[int, int],
) -> None:
    what = event.get("event")
    if what in ("Started", "Refused"):
        latest[rank] = latest.get(rank, -1) + 1
        key = (latest[rank], rank)
        spans[key] = Span(rank, latest[rank], at, pid=event.get("pid"))
        if what == "Refused":
            spans[key] = replace(spans[key], ended=at, how=REFUSED)
    elif what == "Exited" and rank in latest:
        key = (latest[rank], rank)
        how = event.get("exit") or {}
        code, signum = how.get("code"), how.get("signal")
        ending = WELL if code == 0 and signum is None else STOPPED if event.get("told") else FAILED
        spans[key] = replace(spans[key], ended=at, how=ending, code=code, signal=signum)


def _mark(event: Mapping[str, Any], at: float) -> Mark | None:
    """What happened to no single rank, in words."""
    what, node, signum = (event.get(name) for name in ("event", "node_rank", "signum"))
    if what == "AgentLost":
        return Mark(at, f"node {node} was lost: {event.get('reason', '')}")
    told = signum if isinstance(signum, int) else None
    if what == "Interrupted":
        return Mark(at, "zlaunch was told to stop by", told)
    if what == "Told":
        return Mark(at, f"zlaunch was told by node {node} of", told)
    return None
