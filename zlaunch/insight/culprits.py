"""Tells the ranks that failed of their own from those that they took along.

By kind, not by the clock: a rank that lost its peer may well be the first to be gone. Time
decides among equals only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.insight.absent_ranks import absence
from zlaunch.insight.cause_table import Kind, Told
from zlaunch.insight.endings import Ending
from zlaunch.insight.evidence import Evidence
from zlaunch.insight.rank_words import RankWords
from zlaunch.spec.ranks import describe_ranks

_NEVER = float("inf")
_LOSSES = {
    "nccl-peer-lost": "NCCL abort after a peer died",
    "peer-lost": "connection closed by peer",
}


@frozen
class Sides:
    """Whose endings tell why the run ended, in order; and why the others are victims."""

    culprits: tuple[Ending, ...] = ()
    victims: Mapping[int, str] | None = None


def sides(evidence: Evidence, words: Mapping[int, RankWords], endings: Sequence[Ending]) -> Sides:
    """Decide who is who."""
    told_to_stop = {r for r, end in evidence.ends.items() if end.stopped and not end.well}
    blamed = _blamed(evidence, words, endings, told_to_stop)
    ranks = {one.rank for one in blamed}
    first = blamed[0].rank if blamed else None
    victims = {
        one.rank: _why(one, evidence.launcher if one.rank in told_to_stop else "", first)
        for one in endings
        if one.rank not in ranks
    }
    return Sides(blamed, dict(sorted(victims.items())))


def _blamed(
    evidence: Evidence,
    words: Mapping[int, RankWords],
    endings: Sequence[Ending],
    told_to_stop: set[int],
) -> tuple[Ending, ...]:
    of = {kind: [one for one in endings if one.kind is kind] for kind in Kind}
    if of[Kind.OWN]:
        own = [one for one in of[Kind.OWN] if not _lost_somebody(one)]
        return tuple(sorted(own or of[Kind.OWN], key=_order))
    if of[Kind.MISFIT]:
        return tuple(sorted(of[Kind.MISFIT], key=_order))
    if of[Kind.WAITED]:
        return _for_whom(evidence, words, sorted(of[Kind.WAITED], key=_order))
    if of[Kind.LOST]:
        return _without_a_culprit(evidence, sorted(of[Kind.LOST], key=_order))
    return tuple(sorted((o for o in of[Kind.STOPPED] if o.rank not in told_to_stop), key=_order))


# Of a peer, or of any other server: who has no other reason beside him is a culprit all the same.
_LOST_SOMEBODY = {"ConnectionResetError", "ConnectionAbortedError", "BrokenPipeError", "EOFError"}


def _lost_somebody(one: Ending) -> bool:
    return one.raised is not None and one.raised.type.rpartition(".")[2] in _LOST_SOMEBODY


def _order(one: Ending) -> tuple[bool, float, int]:
    return (not one.explained, _NEVER if one.at is None else one.at, one.rank)


def _for_whom(
    evidence: Evidence, words: Mapping[int, RankWords], waiting: Sequence[Ending]
) -> tuple[Ending, ...]:
    found = absence(evidence, words, waiting)
    by_rank = {one.rank: one for one in waiting}
    blamed = []
    for rank in found.ranks:
        one = by_rank.get(rank) or replace(waiting[0], rank=rank, shown=(), raised=None, at=None)
        blamed.append(replace(one, code=found.code, told=found.told, evidence=found.lines))
    return tuple(blamed)


def _without_a_culprit(evidence: Evidence, lost: Sequence[Ending]) -> tuple[Ending, ...]:
    """Everybody lost a peer, and nobody says that it failed."""
    done = [rank for rank, end in evidence.ends.items() if end.well]
    if not done:
        return tuple(lost)
    told = Told(
        f"{describe_ranks(done)} had ended with 0 while {describe_ranks(o.rank for o in lost)} "
        "still needed it",
        lost[0].told.details,
        (
            (
                "ranks with less data end earlier: drop_last=True, a DistributedSampler, or "
                "DistributedDataParallel's join()"
            ),
        ),
    )
    return tuple(replace(one, code="rank-left-early", told=told) for one in lost)


def _why(one: Ending, stopped_by: str, first: int | None) -> str:
    if one.kind is Kind.LOST or (_lost_somebody(one) and not stopped_by):
        return _LOSSES.get(one.code, "lost a peer")
    if one.kind in (Kind.WAITED, Kind.MISFIT):
        return "waited for a peer" if first is None else f"waited for rank {first}"
    return f"stopped by {stopped_by}" if stopped_by else "stopped"
