"""A diagnosis for a person: what happened, to whom, and what to do, on one screen."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from zlaunch.insight.evidence import Cause, Diagnosis, Evidence, RankEnd
from zlaunch.insight.exits import exit_in_words
from zlaunch.insight.rank_words import plain_line
from zlaunch.spec.ranks import describe_ranks

_MOST_CAUSES, _MOST_MENDS, _MOST_NOTICED = 4, 6, 4
_HEAD, _TAIL = 5, 16  # lines of a traceback
_LAST_WORDS = 8  # lines of a rank that explains nothing
_WIDEST = 110  # columns of a text; of a quoted line more is shown
_QUOTED = 240


def text(diagnosis: Diagnosis, evidence: Evidence, *, guessed: bool = False) -> str:
    """All that a person wants to know, without a newline at the end."""
    return "\n".join(_lines(diagnosis, evidence, guessed))


def _lines(diagnosis: Diagnosis, evidence: Evidence, guessed: bool) -> Iterator[str]:
    if not diagnosis.causes:
        yield _no_failure(diagnosis, evidence)
    for cause in diagnosis.causes[:_MOST_CAUSES]:
        yield from _cause(cause, diagnosis, evidence)
    rest = len(diagnosis.causes) - _MOST_CAUSES
    if rest > 0:
        yield f"and {rest} other causes; --json has them all"
    if guessed:
        yield from _wrapped("the log does not say which rank printed or failed; it may be another",
                            "note: ")  # fmt: skip
    if diagnosis.victims:
        yield from _wrapped(_victims(diagnosis.victims), "victims: ")
    for cause in diagnosis.noticed[:_MOST_NOTICED]:
        yield from _wrapped(cause.title, "noticed: ")
        for mend in cause.mends:
            yield from _wrapped(mend, "         - ")


def _no_failure(diagnosis: Diagnosis, evidence: Evidence) -> str:
    if diagnosis.victims:
        return "no rank failed of its own"
    ended = [end for end in evidence.ends.values() if end.well]
    if ended and len(ended) == len(evidence.world):
        return "no failure was found: every rank ended with 0"
    return "no failure was found"


def _cause(cause: Cause, diagnosis: Diagnosis, evidence: Evidence) -> Iterator[str]:
    speaker = f"{who(cause, evidence)}: " if cause.ranks else ""
    yield from _wrapped(cause.title, speaker)
    for detail in cause.details:
        yield from _wrapped(detail, "    ")
    if cause.mends:
        yield "  what to do:"
        for mend in cause.mends[:_MOST_MENDS]:
            yield from _wrapped(mend, "    - ")
    yield from quoted(cause, diagnosis, evidence)
    yield ""


def who(cause: Cause, evidence: Evidence) -> str:
    """Whose cause it is: `rank 1 on node-2 (exit code 1)`."""
    ends = [end for rank in cause.ranks if (end := evidence.ends.get(rank)) is not None]
    own = [end for end in ends if not end.stopped] or ends
    how = dict.fromkeys(words for end in own if (words := _exit(end)))
    places = {_place(rank, evidence) for rank in cause.ranks} - {""}
    where = f" on {', '.join(sorted(places)[:3])}" if 0 < len(places) <= 3 else ""
    return f"{describe_ranks(cause.ranks)}{where}" + (f" ({', '.join(how)})" if how else "")


def _exit(end: RankEnd) -> str:
    words = exit_in_words(end)
    return f"stopped, {words}" if words and end.stopped else words


def _place(rank: int, evidence: Evidence) -> str:
    end = evidence.ends.get(rank)
    host = evidence.hosts.get(rank, "")
    return (end.place if end is not None else "") or ("" if host == "localhost" else host)


def quoted(cause: Cause, diagnosis: Diagnosis, evidence: Evidence) -> Iterator[str]:
    """What ranks of a cause printed: the traceback once for all of them, else the telling lines."""
    shown = False
    for traceback in diagnosis.tracebacks:
        if set(traceback.ranks) & set(cause.ranks):
            yield f"  {describe_ranks(traceback.ranks)} printed:"
            yield from _folded(traceback.lines)
            shown = True
    if shown:
        return
    lines = [line.text for line in cause.evidence]
    speakers = sorted({line.rank for line in cause.evidence}) or cause.ranks
    if cause.code == "exit-code":
        said = [plain_line(word) for word in evidence.words.get(cause.ranks[0], ())[-200:]]
        lines = [line for line in said if line.strip()][-_LAST_WORDS:]
    if lines:
        yield f"  {describe_ranks(speakers)} printed:"
        yield from (f"    {_cut(plain_line(line))}" for line in lines)


def _folded(lines: Sequence[str]) -> Iterator[str]:
    kept = [line for line in lines if line.strip(" ^~")]
    left_out = len(kept) - _HEAD - _TAIL
    if left_out > 1:
        kept = [*kept[:_HEAD], f"... ({left_out} lines)", *kept[-_TAIL:]]
    yield from (f"    {_cut(line)}" for line in kept)


def _cut(line: str) -> str:
    """A quoted line; control characters are spelled, so that they do not act on the screen."""
    visible = "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in line)
    return visible if len(visible) <= _QUOTED else visible[: _QUOTED - 1] + "…"


def _victims(victims: Mapping[int, str]) -> str:
    by_reason: dict[str, list[int]] = {}
    for rank, why in victims.items():
        by_reason.setdefault(why, []).append(rank)
    return "; ".join(f"{describe_ranks(ranks)}: {why}" for why, ranks in by_reason.items())


def _wrapped(words: str, first: str) -> list[str]:
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    indent = " " * min(len(first), 11) if first.endswith("- ") or not first.strip() else "    "
    return textwrap.wrap(_printable(words), max(width, 40), initial_indent=first,
                         subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False) or [first]  # fmt: skip


def _printable(words: str) -> str:
    return "".join(c if c.isprintable() else " " for c in words)
