"""Who never came to a collective that others waited for: read from what all ranks said.

NCCL's watchdog says on each rank which collective it waits in, and which it enqueued last. gloo
says no more than that time ran out, so the ranks that did not say it are those that were missed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zlaunch.frozen import frozen
from zlaunch.insight.cause_table import Told, at_most
from zlaunch.insight.endings import Ending
from zlaunch.insight.evidence import Evidence, Line
from zlaunch.insight.rank_words import RankWords
from zlaunch.spec.ranks import describe_ranks

_WORK = re.compile(
    r"WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)(?:, NumelIn=(?P<numel>\d+))?.{0,200}?"
    r"ran for (?P<ms>\d+) milliseconds"
)
_ENQUEUED = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (\d+), last completed (?:NCCL )?work: (\d+)"
)
_GROUP = re.compile(r"PG GUID (\S+?)(?:\(|\s)")
_ABSENT = re.compile(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier")
_LIMIT = re.compile(r"(?:Timed out waiting|timeout after|in) (\d+) ?ms")
_JOINED = re.compile(r"Timed out after (\d+) seconds waiting for clients\. (\d+)/(\d+)")


@frozen
class _Work:
    """Where a rank stands in the order of NCCL's collectives."""

    waits_in: int | None = None
    op: str = ""
    numel: str = ""
    seconds: float = 0.0
    enqueued: int | None = None
    completed: int | None = None
    lines: tuple[Line, ...] = ()


@frozen
class Absence:
    """Who is to blame for a wait, and in which words."""

    code: str
    ranks: tuple[int, ...]
    told: Told
    lines: tuple[Line, ...] = ()


def absence(
    evidence: Evidence, words: Mapping[int, RankWords], waiting: Sequence[Ending]
) -> Absence:
    """Name whom `waiting` ranks waited for; themselves where that cannot be told."""
    works = {rank: work for rank in words if (work := _work(words[rank])) is not None}
    if any(work.waits_in is not None for work in works.values()):
        return _of_nccl(evidence, words, works)
    named = _named(waiting)
    ranks = named or _silent(evidence, waiting)
    lines = tuple(line for one in waiting for line in one.evidence)
    code = waiting[0].code
    return Absence(code, ranks or tuple(one.rank for one in waiting),
                   _in_words(evidence, words, waiting, ranks), lines)  # fmt: skip


def _work(words: RankWords) -> _Work | None:
    """Read the first that the watchdog says; what follows are its repetitions."""
    at, work, group = _Work(), None, ""
    for number, line in enumerate(words.lines):
        if "work" not in line.lower():
            continue
        found = None if at.waits_in is not None else _WORK.search(line)
        if found is not None:
            at = _Work(int(found["seq"]), found["op"], found["numel"] or "",
                       int(found["ms"]) / 1000, at.enqueued, at.completed,
                       (*at.lines, Line(words.rank, number, line)))  # fmt: skip
            work = at
        counts = _ENQUEUED.search(line)
        named = _GROUP.search(line)
        if counts is not None and at.enqueued is None:
            group = group or (named[1] if named else "")
            at = _Work(at.waits_in, at.op, at.numel, at.seconds, int(counts[1]), int(counts[2]),
                       (*at.lines, Line(words.rank, number, line)))  # fmt: skip
            work = at
    return work


def _of_nccl(
    evidence: Evidence, words: Mapping[int, RankWords], works: Mapping[int, _Work]
) -> Absence:
    waits = {r: w for r, w in works.items() if w.waits_in is not None}
    first = min(waits.values(), key=lambda work: work.waits_in or 0)
    number = first.waits_in or 0
    here = [rank for rank, work in waits.items() if work.waits_in == number]
    lines = tuple(work.lines[0] for work in waits.values() if work.lines)
    calls = {f"{waits[r].op} of {waits[r].numel} elements": r for r in here}
    if len(calls) > 1:
        who = [f"{_calling(waits, here, call)} {call}" for call in calls]
        return _different(tuple(sorted(here)), f"collective {number}: {'; '.join(who)}", lines)
    behind = [r for r, w in works.items()
              if r not in here and w.enqueued is not None and w.enqueued < number]  # fmt: skip
    mute = [r for r in evidence.world if r not in works]
    absent = tuple(sorted({*behind, *mute}))
    if not absent:
        return _past(waits, works, number, here, lines)
    told = Told(
        f"{describe_ranks(absent)} never came to collective {number} ({first.op}), in which "
        f"{describe_ranks(here)} waited {first.seconds:.0f} s",
        _last_of(words, absent),
        _mends(absent),
    )
    extra = tuple(line for r in behind for line in works[r].lines[:1])
    return Absence("collective-timeout", absent, told, (*lines, *extra))


def _calling(waits: Mapping[int, _Work], here: Sequence[int], call: str) -> str:
    ranks = [r for r in here if f"{waits[r].op} of {waits[r].numel} elements" == call]
    return f"{describe_ranks(ranks)} called"


def _past(
    waits: Mapping[int, _Work],
    works: Mapping[int, _Work],
    number: int,
    here: Sequence[int],
    lines: tuple[Line, ...],
) -> Absence:
    """All ranks took part: some are through with a collective that others still wait in."""
    through = [r for r, w in works.items() if w.completed is not None and w.completed >= number]
    if through:
        what = (
            f"{describe_ranks(through)} passed collective {number} while {describe_ranks(here)} "
            f"waited in it ({waits[here[0]].op})"
        )
        return _different(tuple(sorted({*through, *here})), what, lines)
    ranks = tuple(sorted(waits))
    told = Told(
        f"collective {number} ({waits[here[0]].op}) timed out on {describe_ranks(ranks)}",
        ("no rank says which was missed: the network, or a collective called in another order",),
        _mends(()),
    )
    return Absence("collective-timeout", ranks, told, lines)


def _different(ranks: tuple[int, ...], what: str, lines: tuple[Line, ...]) -> Absence:
    told = Told(
        f"the ranks called different collectives: {what}",
        (),
        (
            (
                "each rank has to call the same collectives in the same order and with the same "
                "sizes: look for an `if` on the rank, or a branch that only some ranks take"
            ),
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names the collective of each rank",
        ),
    )
    return Absence("collective-mismatch", ranks, told, lines)


def _named(waiting: Sequence[Ending]) -> tuple[int, ...]:
    """The ranks that torch itself names, as a monitored barrier does."""
    named: set[int] = set()
    for one in waiting:
        found = _ABSENT.search(one.raised.text) if one.raised is not None else None
        if found is not None:
            named |= {int(number) for number in re.findall(r"\d+", found[1])}
    return tuple(sorted(named))


def _silent(evidence: Evidence, waiting: Sequence[Ending]) -> tuple[int, ...]:
    """Who is of the run and did not say that it waited."""
    waited = {one.rank for one in waiting}
    return tuple(rank for rank in evidence.world if rank not in waited)


def _in_words(
    evidence: Evidence,
    words: Mapping[int, RankWords],
    waiting: Sequence[Ending],
    absent: tuple[int, ...],
) -> Told:
    text = waiting[0].raised.text if waiting[0].raised is not None else ""
    waited = describe_ranks(one.rank for one in waiting)
    joined = _JOINED.search(text)
    if joined is not None:
        title = f"after {joined[1]} s only {joined[2]} of {joined[3]} ranks had joined"
        who = f": {describe_ranks(absent)} did not" if absent else ""
        return Told(title + who, _last_of(words, absent), _JOIN_MENDS)
    if text.startswith("RendezvousTimeoutError"):
        return Told(waiting[0].told.title, (), _JOIN_MENDS)
    limit = _LIMIT.search(text)
    for_long = f" for {int(limit[1]) / 1000:g} s" if limit else ""
    if not absent:
        return Told(f"{waited} waited{for_long} for a peer that did not come", (), _mends(()))
    ended = [rank for rank in absent if rank in evidence.ends and evidence.ends[rank].well]
    how = "had ended with 0 while" if len(ended) == len(absent) else "did not come while"
    place = waiting[0].raised.place if waiting[0].raised is not None else ""
    title = f"{describe_ranks(absent)} {how} {waited} waited{for_long}"
    return Told(title + (f" at {place}" if place else ""), _last_of(words, absent), _mends(absent))


_JOIN_MENDS = (
    (
        "all ranks have to be started, and to reach rank 0's address and port: MASTER_ADDR, "
        "MASTER_PORT, WORLD_SIZE"
    ),
    (
        "a rank that compiles operators or loads a model first needs a longer "
        "init_process_group(timeout=...)"
    ),
)


def _mends(absent: tuple[int, ...]) -> tuple[str, ...]:
    what = f"what {describe_ranks(absent)} did meanwhile" if absent else "what the ranks did"
    return (
        (
            f"look at {what}: an `if` on the rank, less data than the others have, an endless "
            "loop, saving or evaluating on one rank alone"
        ),
        (
            "if it is only slow: init_process_group(timeout=timedelta(hours=2)), "
            "deepspeed.init_distributed(timeout=...)"
        ),
    )


def _last_of(words: Mapping[int, RankWords], absent: Sequence[int]) -> tuple[str, ...]:
    """The last lines that absent ranks printed of their own."""
    said = []
    for rank in absent[:3]:
        if rank not in words:
            continue
        own = [line for line in words[rank].lines
               if line.strip() and not line.startswith(("[E", "[W", "[I"))]  # fmt: skip
        said.append(
            f"rank {rank} said last: {own[-1][:120]}" if own else f"rank {rank} said nothing"
        )
    return (at_most(said, 3),) if said else ()
