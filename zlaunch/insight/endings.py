"""Why one rank ended: from what it printed last, else from its exit code or signal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.insight import (
    causes_built,
    causes_cuda,
    causes_deepspeed,
    causes_memory,
    causes_network,
    causes_program,
    exits,
    printed,
    tracebacks,
)
from zlaunch.insight.cause_table import Case, Kind, Told, row_for
from zlaunch.insight.evidence import Evidence, Line, RankEnd
from zlaunch.insight.rank_words import RankWords, plain
from zlaunch.insight.tracebacks import Raised

TABLES = (
    causes_memory.ROWS,
    causes_network.ROWS,
    causes_deepspeed.ROWS,
    causes_built.ROWS,
    causes_cuda.ROWS,
    causes_program.ROWS,
)
# An uncaught error is the last thing that a rank says, but for what others say at exit. Where it
# is not known that the rank failed, more is asked.
_FAR, _NEAR = 400, 40  # lines
_MOST_RAISED = 20  # of a rank; of more, these are the last
_GAP = 10  # ordinary lines: the program went on after what stands before them
_NOISE = re.compile(
    r"\s*$|\s+\S|\[?[EWIF]\d{4} |frame #\d|#\d+ |Exception raised from|terminate called|"
    r"wandb: |\[\d{4}-\d\d-\d\d|\*{5}"
)
_STOPPING = re.compile(
    r"^(?:KeyboardInterrupt|SystemExit|SignalException)|got signal: (?:15|2)|"
    r"killed by signal: Terminated"
)


@frozen
class Ending:
    """Why a rank failed. `explained`: there is more than an exit code."""

    rank: int
    kind: Kind
    code: str
    told: Told
    evidence: tuple[Line, ...] = ()
    raised: Raised | None = None
    shown: tuple[str, ...] = ()
    explained: bool = True
    at: float | None = None


@frozen
class _Sign:
    """Something that a rank printed, at lines `start` to `end`."""

    kind: Kind
    code: str
    told: Told
    start: int
    tell: int
    end: int
    raised: Raised | None = None

    @property
    def has_frames(self) -> bool:
        """Whether it is Python's own; native code that fails after it does so on the way out."""
        return self.raised is not None and bool(self.raised.frames)


def ending(evidence: Evidence, rank: int, words: RankWords) -> Ending | None:
    """Why the rank failed; None where it ended well, or nothing says that it failed."""
    end = evidence.ends.get(rank)
    if end is not None and end.well:
        return None
    sign = _chosen(_signs(evidence, rank, words, end), words, end)
    if sign is None and end is not None and end.error:
        sign = _from_error_file(evidence, end)
        if sign is not None:
            lines = sign.raised.message.splitlines() if sign.raised else ()
            return _of_sign(rank, sign, end, plain(rank, lines), told_by_file=True)
    if sign is not None:
        return _of_sign(rank, sign, end, words)
    if end is None or (end.code is None and end.signal is None):
        return None
    kind, code, told, explained = exits.without_words(end)
    last = tuple(line for line in words.lines[-20:] if line.strip())
    return Ending(rank, kind, code, told, shown=last, explained=explained, at=end.at)


def _of_sign(
    rank: int,
    sign: _Sign,
    end: RankEnd | None,
    words: RankWords,
    *,
    told_by_file: bool = False,
) -> Ending:
    kind = sign.kind
    stopped = end is not None and (end.stopped or end.signal == exits.TERM)
    if sign.raised is None or not sign.raised.frames:
        on_the_way_out = end is not None and end.stopped and kind is Kind.OWN
    else:
        on_the_way_out = bool(_STOPPING.search(sign.raised.text)) and (
            stopped or sign.code == "interrupted"
        )
    if on_the_way_out:
        kind = Kind.STOPPED
    first = sign.start if sign.raised is None else sign.raised.first_line
    shown = words.lines[first : sign.end]
    lines: tuple[Line, ...] = ()
    if not told_by_file and sign.tell < len(words.lines):
        lines = (Line(rank, sign.tell, words.lines[sign.tell]),)
    at = end.at if end is not None else None
    return Ending(rank, kind, sign.code, sign.told, lines, sign.raised, shown, at=at)


def _signs(evidence: Evidence, rank: int, words: RankWords, end: RankEnd | None) -> list[_Sign]:
    raised = [one for one in tracebacks.find(words) if not one.aside][-_MOST_RAISED:]
    signs = [_of_exception(evidence, rank, one, words) for one in raised]
    signs += [_of_exception(evidence, rank, one, words) for one in printed.thrown(words)]
    code = end.code if end is not None else None
    for one in printed.find(words):
        if not one.needs_code or code is None or code in one.needs_code:
            signs.append(_Sign(one.kind, one.code, one.told, one.start, one.tell, one.end))
    return sorted(signs, key=lambda sign: sign.start)


def _of_exception(evidence: Evidence, rank: int, raised: Raised, words: RankWords) -> _Sign:
    match = row_for(raised, TABLES)
    if match is None:
        told = Told(_shortened(raised.summary), _places(raised))
        return _Sign(Kind.OWN, "exception", told, raised.start, raised.tell, raised.end, raised)
    row, found, one = match
    if row.kind is not Kind.OWN and (own := _behind(raised)) is not None:
        sign = _of_exception(evidence, rank, own, words)
        return replace(sign, start=raised.start, end=raised.end, raised=raised)
    told = row.told(Case(found, rank, evidence, one))
    details = (*told.details, *exits.beside(row.code, words, one), *_places(raised))
    told = replace(told, details=details)
    return _Sign(row.kind, row.code, told, raised.start, one.tell, raised.end, raised)


def _behind(raised: Raised) -> Raised | None:
    """The user's own error, where a peer was lost or waited for while it was handled.

    So does a `finally` with a barrier in it. Of errors that a library handles within itself,
    Python prints its frames alone.
    """
    for one in list(raised.chain())[1:]:
        alone = replace(one, before=None)
        match = row_for(alone, TABLES)
        if one.frames and one.frames[0].own and (match is None or match[0].kind is Kind.OWN):
            return alone
    return None


def _places(raised: Raised) -> tuple[str, ...]:
    place = raised.place
    if raised.before is not None and raised.before.message != raised.message:
        before = _shortened(raised.before.summary)
        return (f"at {place}", f"after {before}") if place else (f"after {before}",)
    return (f"at {place}",) if place else ()


def _shortened(text: str) -> str:
    return text if len(text) <= 300 else text[:299] + "…"


def _chosen(signs: Sequence[_Sign], words: RankWords, end: RankEnd | None) -> _Sign | None:
    """The sign that ended the rank: of those after which it did not go on, its own error."""
    if not signs:
        return None
    last = len(words.lines)
    near = _NEAR if end is None or end.signal not in (None, exits.TERM) else _FAR
    if _ordinary(words, signs[-1].tell + 1, last) > near:
        return None
    group = [signs[-1]]
    for sign in reversed(signs[:-1]):
        if _ordinary(words, sign.tell + 1, group[-1].start) >= _GAP:
            break
        group.append(sign)
    return min(group, key=lambda sign: (sign.kind, not sign.has_frames, -sign.start))


def _ordinary(words: RankWords, start: int, end: int) -> int:
    return sum(1 for line in words.lines[start:end] if not _NOISE.match(line))


def _from_error_file(evidence: Evidence, end: RankEnd) -> _Sign | None:
    """Read what torch's `@record` wrote."""
    try:
        message = json.loads(end.error)["message"]
        text = message["message"] if isinstance(message, dict) else str(message)
        stack = (
            message.get("extraInfo", {}).get("py_callstack", "")
            if isinstance(message, dict)
            else ""
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    words = plain(end.rank, str(stack).splitlines())
    raised = next(iter(tracebacks.find(words)[-1:]), None)
    if raised is None:
        type_, _, rest = str(text).partition(": ")
        raised = Raised(type_, rest, (), 0, 0, 1)
    sign = _of_exception(evidence, end.rank, raised, words)
    whole = replace(raised, message="\n".join(words.lines) or raised.message, before=None)
    return replace(sign, start=0, end=len(words.lines) or 1, raised=replace(whole, start=0))
