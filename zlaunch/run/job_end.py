"""How Slurm ended a job, or a step of it, that a run was in. Pure; a part of the run's outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from zlaunch.frozen import frozen

TIME_LIMIT = "job-time-limit"
CANCELLED = "job-cancelled"
PREEMPTED = "job-preempted"
REQUEUED = "job-requeued"
NODE_FAILED = "node-failed"
OUT_OF_MEMORY = "job-out-of-memory"
ENDED = "job-ended"

STOPS = frozenset({CANCELLED, PREEMPTED, REQUEUED})
"""Ends that somebody wanted: the run was stopped."""


@frozen
class JobEnd:
    """An end, by one of the codes above; "" where Slurm knows the job, and ended nothing.

    `state` is Slurm's own word. `step` names the step that it befell, "" for the whole job.
    `by` is who cancelled it, by name, and `owner` whose job it is; "" where Slurm does not tell.
    `nodes` are those that failed, or that the step was on. `at` is in seconds of the epoch,
    `limit` in seconds, `memory` the limit in words, `words` what Slurm said of it. `over` tells
    whether the job is.
    """

    code: str
    job: str
    state: str = ""
    step: str = ""
    by: str = ""
    owner: str = ""
    nodes: tuple[str, ...] = ()
    at: float | None = None
    limit: float | None = None
    memory: str = ""
    exit: str = ""
    words: str = ""
    over: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {**asdict(self), "nodes": list(self.nodes)}

    @classmethod
    def from_json(cls, data: Any) -> JobEnd | None:
        """Read what `to_json` gave; None where it is none."""
        if not isinstance(data, Mapping):
            return None
        texts = ("code", "job", "state", "step", "by", "owner", "memory", "exit", "words")
        if not all(isinstance(data.get(name, ""), str) for name in texts):
            return None
        nodes = data.get("nodes")
        return cls(
            **{name: data.get(name, "") for name in texts},
            at=_number(data.get("at")),
            limit=_number(data.get("limit")),
            nodes=tuple(map(str, nodes)) if isinstance(nodes, list) else (),
            over=data.get("over") is not False,
        )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
