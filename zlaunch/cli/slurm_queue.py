"""Why a submitted run does not run yet, by Slurm's own word."""

from __future__ import annotations

from zlaunch.errors import BackendError
from zlaunch.run.record import RunRecord
from zlaunch.spec.slurm_queue import describe_wait
from zlaunch.system.slurm_commands import QUEUE


def why_queued(record: RunRecord) -> str:
    """Return the job, why it waits, and when it may start."""
    name = f"Slurm's job {record.job}"
    try:
        job = QUEUE.job(record.job)
    except BackendError as error:
        return f"{name}; {error.message}"
    if job is None or job.over:
        return f"{name}, which has ended"
    return describe_wait(job) if job.waits else f"{name} has just begun"
