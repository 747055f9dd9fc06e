"""How Slurm ended the job of a run, found out later where the run was lost."""

from __future__ import annotations

from collections.abc import Iterable

from zlaunch.insight.job_causes import cause
from zlaunch.insight.job_ends import Window, judge, on_nodes
from zlaunch.run.job_end import NODE_FAILED, JobEnd
from zlaunch.run.record import LOST, RunRecord
from zlaunch.spec.slurm_records import JobRecord, start_of
from zlaunch.system.job_ends import keep_job_end, kept_job_end
from zlaunch.system.rundir import RunDir
from zlaunch.system.slurm_records import SlurmRecords, user_name

SECONDS = 4.0
"""How long Slurm is asked, all questions of one look together."""


def job_end_of(run: RunDir, record: RunRecord) -> JobEnd | None:
    """Return how Slurm ended the job of a run that is over; None where it did not, or is unknown.

    Of a lost run Slurm is asked, for some seconds at most, until its answer could be kept.
    """
    told = JobEnd.from_json((record.outcome or {}).get("slurm"))
    if told is not None or record.state != LOST or not record.slurm_job:
        return told
    kept = kept_job_end(run)
    if kept is not None:
        return kept
    end = ask_slurm(SlurmRecords(SECONDS), record.slurm_job, Window(record.slurm_since))
    if end is not None and end.over:
        keep_job_end(run, end)
    return end


def job_ends_of(runs: Iterable[tuple[RunDir, RunRecord]]) -> dict[str, JobEnd]:
    """The same of many runs, by their ids; Slurm is asked once for all of them."""
    ends: dict[str, JobEnd] = {}
    asked: list[RunRecord] = []
    for run, record in runs:
        told = JobEnd.from_json((record.outcome or {}).get("slurm"))
        lost = record.state == LOST and bool(record.slurm_job)
        told = kept_job_end(run) if lost else told
        if told is not None:
            ends[record.id] = told
        elif lost:
            asked.append(record)
    if asked:
        slurm, jobs = SlurmRecords(SECONDS), {record.slurm_job for record in asked}
        known = (*slurm.accounted(jobs), *slurm.queued(jobs))
        for record in asked:
            window = Window(record.slurm_since)
            found = _record(known, record.slurm_job, window, None)
            if found is not None:
                ends[record.id] = judge(found, window, None, user_name)
    return ends


def ask_slurm(slurm: SlurmRecords, job: str, window: Window) -> JobEnd | None:
    """Return how it ended, or stands, the job in which something was in that window."""
    now = slurm.job(job)
    record = _record(slurm.accounted([job]), job, window, now)
    if record is None:
        return None
    end = judge(record, window, now, user_name)
    nodes = (now.nodes if now else ()) or record.nodes
    look = end.code == NODE_FAILED and nodes
    return on_nodes(end, slurm.nodes(nodes)) if look else end


def _record(
    known: Iterable[JobRecord], job: str, window: Window, now: JobRecord | None
) -> JobRecord | None:
    """The start of the job that the run was in; else that it is started again."""
    records = [record for record in known if record.job == job]
    found = start_of(records, window.began) or start_of([now] if now else [], window.began)
    return found or (now if now is not None and now.restarts else None)


def in_words(end: JobEnd) -> str:
    """`Slurm's job 12 was cancelled by its user, ada`, or just where it stands."""
    return cause(end).title if end.code else f"Slurm's job {end.job}: {end.state}"
