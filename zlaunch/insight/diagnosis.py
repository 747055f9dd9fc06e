"""Why a run ended: who failed of his own, who was taken along, what the cause is, and the way out.

    diagnose(Evidence(ends, words)) -> Diagnosis(causes, culprits, victims, tracebacks, noticed)

Each rank's end is read alone (endings), then they are set beside each other (culprits).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from zlaunch.insight import folding, noticed
from zlaunch.insight.cause_table import at_most
from zlaunch.insight.culprits import sides
from zlaunch.insight.endings import Ending, ending
from zlaunch.insight.evidence import (
    Cause,
    Diagnosis,
    Evidence,
    Line,
    RankEnd,
    Traceback,
)
from zlaunch.insight.rank_words import plain

__all__ = [
    "Cause",
    "Diagnosis",
    "Evidence",
    "Line",
    "RankEnd",
    "Traceback",
    "diagnose",
]

_MOST_LINES = 6  # of evidence a cause
# Differs from host to host, so that it matters on which it was seen.
_OF_A_HOST = {
    "module-missing", "package-missing", "import-failed", "file-not-found", "script-not-found",
    "no-gpu", "driver-too-old", "no-kernel-image", "disk-full", "no-cuda-toolkit", "no-ninja",
    "permission-denied", "invalid-device-ordinal", "hub-offline",
}  # fmt: skip


def diagnose(evidence: Evidence) -> Diagnosis:
    """Say why the run ended. Empty where nothing failed."""
    words = {rank: plain(rank, said) for rank, said in sorted(evidence.words.items())}
    nothing = {rank: plain(rank, ()) for rank in evidence.ends if rank not in words}
    said = {**words, **nothing}
    endings = [one for rank in sorted(said) if (one := ending(evidence, rank, said[rank]))]
    parts = sides(evidence, words, endings)
    causes = _causes(evidence, parts.culprits)
    shown = [*parts.culprits, *(one for one in endings if one.rank in (parts.victims or {}))]
    return Diagnosis(
        causes,
        tuple(one.rank for one in parts.culprits),
        parts.victims or {},
        folding.folded((one.rank, one.shown) for one in shown if one.raised is not None),
        tuple(one for one in noticed.noticed(evidence, words) if not _same(one, causes)),
    )


def _same(one: Cause, causes: Iterable[Cause]) -> bool:
    """Whether a cause says already what was noticed."""
    return one.code == "loss-scale" and any(c.code == "loss-scale-minimum" for c in causes)


def _causes(evidence: Evidence, culprits: Sequence[Ending]) -> tuple[Cause, ...]:
    """One cause for all ranks that it befell; in the order of the first of them."""
    groups: dict[tuple[str, str], list[Ending]] = {}
    for one in culprits:
        groups.setdefault((one.code, _alike(one.told.title)), []).append(one)
    return tuple(_cause(evidence, group) for group in groups.values())


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def _alike(title: str) -> str:
    return _NUMBER.sub("#", folding.alike(title))


def _cause(evidence: Evidence, group: Sequence[Ending]) -> Cause:
    first = group[0]
    lines = dict.fromkeys(line for one in group for line in one.evidence)
    cause = Cause(
        first.code,
        tuple(sorted(one.rank for one in group)),
        first.told.title,
        first.told.details,
        first.told.mends,
        tuple(lines)[:_MOST_LINES],
    )
    where = _where(evidence, cause) if cause.code in _OF_A_HOST else ""
    return replace(cause, details=(*cause.details, where)) if where else cause


def _where(evidence: Evidence, cause: Cause) -> str:
    """On which of several hosts it was seen."""
    hosts = sorted(set(evidence.hosts.values()))
    if len(hosts) < 2:
        return ""
    here = sorted({evidence.hosts[rank] for rank in cause.ranks if rank in evidence.hosts})
    if len(here) == len(hosts):
        return "on every host"
    others = [host for host in hosts if host not in here]
    return f"on {at_most(here, 4)} only, not on {at_most(others, 4)}"
