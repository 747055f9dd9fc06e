"""How a run ended and why, in a line: for those who watched its ranks and saw no reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zlaunch.cli.one_run import ending, say
from zlaunch.cli.visible import visible
from zlaunch.run.record import FAILED, FINISHED, RunRecord
from zlaunch.system.rundir import RunDir

if TYPE_CHECKING:
    from zlaunch.run.job_end import JobEnd


def first_cause(
    run: RunDir, record: RunRecord, job_end: JobEnd | None = None
) -> dict[str, Any] | None:
    """The first of what `zlaunch diagnose` tells, as data: of a run that failed, or whose job did.

    `job_end` is how Slurm ended that.
    """
    if record.state != FAILED and not (job_end is not None and job_end.code):
        return None
    from zlaunch.cli.past_run import diagnosis_of, evidence_of  # who follows pays at the end alone

    for cause in diagnosis_of(run, record, evidence_of(run, record)).causes[:1]:
        return {"code": cause.code, "ranks": list(cause.ranks), "title": cause.title}
    return None


def cause_in_words(run_id: str, cause: dict[str, Any]) -> str:
    """`rank 1: CUDA out of memory: ...; more: zlaunch diagnose 2026...`."""
    ranks = f"rank {cause['ranks'][0]}: " if cause["ranks"] else ""
    return f"{ranks}{visible(cause['title'])}; more: zlaunch diagnose {run_id}"


def say_how_it_ended(run: RunDir, record: RunRecord, *, known: bool = False) -> None:
    """Say it, of a run that is over; only the cause where it is `known` that it ended.

    That it finished well needs no word.
    """
    if not record.is_over:
        return
    cause = first_cause(run, record, _job_end(run, record))
    if cause is not None:
        words = cause_in_words(record.id, cause)
        say(words if known else f"run {record.id} {ending(record)}: {words}")
    elif not known and record.state != FINISHED:
        say(f"run {record.id} {ending(record)}")


def _job_end(run: RunDir, record: RunRecord) -> JobEnd | None:
    if not record.slurm_job:
        return None
    from zlaunch.cli.past_run import job_end_of

    return job_end_of(run, record)
