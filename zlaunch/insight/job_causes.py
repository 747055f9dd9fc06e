"""How Slurm ended a job, as a cause: what it means, and the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from zlaunch.insight.evidence import Cause
from zlaunch.run.job_end import (
    CANCELLED,
    ENDED,
    NODE_FAILED,
    OUT_OF_MEMORY,
    PREEMPTED,
    REQUEUED,
    TIME_LIMIT,
    JobEnd,
)

_SYSTEM = frozenset({"root", "slurm"})
Words = tuple[str, tuple[str, ...]]
_KILLED = frozenset({"killed", "host-out-of-memory"})
_EFFECTS = frozenset({*_KILLED, "terminated", "zlaunch-trouble", "peer-lost", "nccl-peer-lost"})


def cause(end: JobEnd) -> Cause:
    """The end as a cause."""
    told = _TELL[end.code](end)
    words = (f"Slurm: {end.words}",) if end.words else ()
    return Cause(end.code, (), told[0], words, told[1])


def of_evidence(causes: Iterable[Cause], end: JobEnd) -> tuple[Cause, ...]:
    """Put the end in front of what ranks' own ends tell, save what is an effect of it."""
    first, rest, ranks, mends = cause(end), [], list[int](), list[str]()
    for one in causes:
        if end.code == OUT_OF_MEMORY and one.code in _KILLED:
            ranks += one.ranks
            mends += one.mends
        elif one.code not in _EFFECTS:
            rest.append(one)
    many = tuple(dict.fromkeys([*first.mends, *mends]))
    found = replace(first, ranks=tuple(sorted(ranks)), mends=many)
    return (found, *rest)


def _time_limit(end: JobEnd) -> Words:
    limit = f" ({_span(end.limit)})" if end.limit else ""
    return f"the time limit of {_job(end)}{limit} has come", (
        "--time of sbatch or salloc for more, as far as the partition allows",
        "--signal=B:USR1@300 warns ranks that long before, so that they save a checkpoint",
    )


def _cancelled(end: JobEnd) -> Words:
    what = _job(end)
    if end.step:
        what = f"step {end.step}{_on(end)} of {what}"
    if not end.by:
        return f"{what} was cancelled", ("by whom only Slurm's accounting knows (sacct)",)
    if end.by == end.owner:
        return f"{what} was cancelled by its user, {end.by}", ()
    whose = f" (the job is {end.owner}'s)" if end.owner else ""
    if end.by in _SYSTEM:
        mend = "ask an administrator; it may have been a rule of the cluster's, and nobody himself"
        return f"{what} was cancelled by {end.by}{whose}", (mend,)
    return f"{what} was cancelled by {end.by}, an administrator{whose}", (f"ask {end.by}",)


def _preempted(end: JobEnd) -> Words:
    return f"{_job(end)} was preempted: another one took its nodes", (
        "another partition or QOS (--partition, --qos) may not be preempted",
        "let ranks save a checkpoint when they get SIGTERM, and submit it again",
    )


def _requeued(end: JobEnd) -> Words:
    return f"{_job(end)} was put back into the queue", ()


def _node_failed(end: JobEnd) -> Words:
    nodes = ", ".join(end.nodes)
    which = f"node {nodes}" if len(end.nodes) == 1 else f"nodes {nodes}" if nodes else "a node"
    avoid = f"--exclude={nodes or 'NODE'}"
    mend = f"`sinfo -R` says why Slurm does not use it; {avoid} of sbatch keeps away from it"
    return f"{which} of {_job(end)} failed", (mend,)


def _out_of_memory(end: JobEnd) -> Words:
    where = f"step {end.step}{_on(end)} of {_job(end)}" if end.step else _job(end)
    limit = f", which had {end.memory}" if end.memory else ""
    return f"memory ran out in {where}{limit}", (
        "--mem (a node) or --mem-per-cpu of sbatch for more",
    )


def _ended(end: JobEnd) -> Words:
    code, _, number = end.exit.partition(":")
    how = f": killed by signal {number}" if number not in {"", "0"} else ""
    if not how and code not in {"", "0"}:
        how = f": exit code {code}"
    return f"{_job(end)} ended as {end.state}{how}", ()


_TELL: Mapping[str, Callable[[JobEnd], Words]] = {
    TIME_LIMIT: _time_limit,
    CANCELLED: _cancelled,
    PREEMPTED: _preempted,
    REQUEUED: _requeued,
    NODE_FAILED: _node_failed,
    OUT_OF_MEMORY: _out_of_memory,
    ENDED: _ended,
}


def _job(end: JobEnd) -> str:
    return f"Slurm's job {end.job}"


def _on(end: JobEnd) -> str:
    return f" on {', '.join(end.nodes)}" if end.nodes else ""


def _span(seconds: float) -> str:
    """`10 min`, `1 h 30 min`."""
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{minutes} min" if not hours else f"{hours} h {rest} min" if rest else f"{hours} h"
