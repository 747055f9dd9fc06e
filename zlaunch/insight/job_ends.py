"""Tells apart how Slurm ended a job, or a step of it, from its own records.

The state of a step is only believed where it says who or what ended it: of steps that were ended
with their job Slurm notes COMPLETED, FAILED or CANCELLED, whichever came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from zlaunch.frozen import frozen
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
from zlaunch.spec.slurm_records import JobRecord, NodeRecord, StepRecord

STEP_NAME = "zlaunch"
"""How zlaunch's own steps are called."""
ENDING = "COMPLETING"
"""The state of a job whose processes are told to end."""

_BY_STATE = {
    "TIMEOUT": TIME_LIMIT,
    "PREEMPTED": PREEMPTED,
    "NODE_FAIL": NODE_FAILED,
    "OUT_OF_MEMORY": OUT_OF_MEMORY,
    "CANCELLED": CANCELLED,
    "REQUEUED": REQUEUED,
    "BOOT_FAIL": ENDED,
    "DEADLINE": ENDED,
    "FAILED": ENDED,
}
# Of a job that is being ended only the reason tells how.
_BY_REASON = {"TimeLimit": TIME_LIMIT, "NodeDown": NODE_FAILED, "NodeFail": NODE_FAILED}
_APART = 10.0  # seconds between clocks


@frozen
class Window:
    """When a run was, in seconds of the epoch; `ended` is None where nobody knows."""

    began: float
    ended: float | None = None

    def has(self, at: float | None) -> bool:
        """Whether a step that was started then may be the run's."""
        if at is None:
            return True
        return self.began - 1.0 <= at and (self.ended is None or at <= self.ended + 1.0)


def judge(
    record: JobRecord,
    window: Window,
    controller: JobRecord | None = None,
    name_of: Callable[[str], str] = str,
) -> JobEnd:
    """Say what Slurm has ended; its code is "" where that is nothing.

    `record` is the start of the job that the run was in, and `controller` what slurmctld says of
    the job now: it alone tells of preemption that gave a grace, and of the limit of memory.
    `name_of` gives the name to the number of a user.
    """
    now = controller or record
    if now.start == record.start and now.over and not record.over:
        record = replace(record, state=now.state, end=now.end, exit=now.exit)  # is ahead
    code = _BY_STATE.get(record.state, "")
    if ENDING in (record.state, now.state):
        code = code or _BY_REASON.get(now.reason, "")
    asked = now.preempted is not None and now.preempted >= window.began - 1.0
    if asked and code not in {TIME_LIMIT, NODE_FAILED, OUT_OF_MEMORY}:
        code = PREEMPTED
    again = now.start is None or now.start > window.began + _APART
    if now.restarts and again and code in {"", CANCELLED, ENDED} and record == now:
        code = REQUEUED
    # Accounting learns whose a job is, and its limits, a moment later than that it was cancelled.
    owner = now.owner or record.owner
    end = JobEnd(
        code,
        record.job,
        record.state,
        by=name_of(record.by) if record.by else "",
        owner=name_of(owner) if owner else "",
        at=record.end if record.over else None,
        limit=now.limit or record.limit,
        memory=now.memory,
        exit=record.exit,
        over=record.over or code == REQUEUED,
    )
    if code == NODE_FAILED:
        return replace(end, nodes=_without_an_exit(record.steps))
    if code in {"", ENDED, OUT_OF_MEMORY}:
        return _of_step(end, record.steps, window, name_of)
    return end


def on_nodes(end: JobEnd, nodes: Iterable[NodeRecord]) -> JobEnd:
    """Add which nodes have failed, and why, as far as Slurm still says so."""
    failed = [node for node in nodes if node.failed]
    if not failed:
        return end
    reasons = dict.fromkeys(node.reason for node in failed if node.reason)
    words = end.words or "; ".join(reasons)
    return replace(end, nodes=tuple(node.name for node in failed), words=words)


def _of_step(
    end: JobEnd, steps: Iterable[StepRecord], window: Window, name_of: Callable[[str], str]
) -> JobEnd:
    """Look for a step of ours that was ended for itself; that of a batch script has no memory."""
    for step in steps:
        ours = step.name == STEP_NAME and window.has(step.start)
        if step.state == "OUT_OF_MEMORY" and (ours or step.id.endswith(".batch")):
            code, by = OUT_OF_MEMORY, ""
        elif step.state == "CANCELLED" and step.by and ours:
            code, by = CANCELLED, name_of(step.by)
        elif step.state == "NODE_FAIL" and ours:
            code, by = NODE_FAILED, ""
        else:
            continue
        return replace(
            end, code=code, state=step.state, step=step.id, by=by, nodes=step.nodes, exit=step.exit
        )
    return end


def _without_an_exit(steps: Iterable[StepRecord]) -> tuple[str, ...]:
    """Where steps were whose end nobody told."""
    return tuple(dict.fromkeys(
        node for step in steps if not step.exit and step.nodes[1:] == () for node in step.nodes
    ))  # fmt: skip
