"""A first look at a rank that failed, while others still run."""

from __future__ import annotations

from zlaunch.insight.cause_table import Kind
from zlaunch.insight.endings import ending
from zlaunch.insight.evidence import Evidence
from zlaunch.insight.rank_words import plain


def failed_of_its_own(evidence: Evidence, rank: int) -> bool:
    """Whether nothing that it printed speaks of another rank that was gone or did not come."""
    found = ending(evidence, rank, plain(rank, evidence.words.get(rank, ())))
    return found is None or found.kind not in (Kind.LOST, Kind.WAITED)
