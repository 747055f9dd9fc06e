"""How Slurm ended the job of a run: found out at its end, and later of a run that was lost."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from zlaunch.backends.base import Backend
from zlaunch.backends.slurm import SlurmBackend
from zlaunch.backends.slurm_words import failed_node
from zlaunch.insight.job_causes import cause
from zlaunch.insight.job_ends import ENDING, Window, judge, on_nodes
from zlaunch.run.job_end import CANCELLED, ENDED, NODE_FAILED, OUT_OF_MEMORY, JobEnd
from zlaunch.run.outcome import Outcome
from zlaunch.run.record import LOST, RunRecord
from zlaunch.spec.slurm_records import JobRecord, start_of
from zlaunch.system.job_ends import keep_job_end, kept_job_end
from zlaunch.system.rundir import RunDir
from zlaunch.system.slurm_records import SlurmRecords, user_name

_SECONDS = 4.0  # for all questions of one look
_PAUSES = (0.2, 0.4)  # seconds until Slurm knows of the end of a step that is over
_KILL, _TERM = 9, 15


# A run that ends now


def may_be_slurms(outcome: Outcome, backend: Backend) -> bool:
    """Whether it may have been Slurm that ended the run: else it is not asked."""
    if isinstance(backend, SlurmBackend) and backend.ends:
        return True
    first = outcome.first_failure
    if first is not None:
        return first.exit.signal in (_KILL, _TERM)
    return outcome.trouble is not None or outcome.stopped_by == _TERM


def seen_with_slurm(outcome: Outcome, backend: Backend, record: RunRecord) -> Outcome:
    """Return the outcome together with how Slurm ended the job, or a step of it, if it did."""
    heard = backend.ends if isinstance(backend, SlurmBackend) else {}
    end = _found(record, heard, wait=bool(heard) or outcome.stopped_by is None)
    return outcome if end is None else outcome.within(end, cause(end).title)


def _found(record: RunRecord, heard: Mapping[str, str], *, wait: bool) -> JobEnd | None:
    slurm, window = SlurmRecords(_SECONDS), Window(record.slurm_since, time.time())
    end = None
    for pause in (0.0, *_PAUSES):
        time.sleep(pause)
        end = _ask(slurm, record.slurm_job, window)
        if not wait or (end is not None and end.code):
            break
    return _by_words(record.slurm_job, end, heard)


def _by_words(job: str, end: JobEnd | None, heard: Mapping[str, str]) -> JobEnd | None:
    """Add what srun said: that alone is there where Slurm does not answer.

    Of memory without cgroups it tells more than the record, in which root has cancelled the step.
    Without accounting a job that is being ended has no other state than that.
    """
    code = end.code if end is not None and end.code != ENDED else ""
    if OUT_OF_MEMORY in heard and code in {"", CANCELLED}:
        code = OUT_OF_MEMORY
    ending = end is not None and end.state == ENDING
    code = code or next(iter(heard), CANCELLED if ending else "")
    if not code:
        return None
    end = replace(end or JobEnd(code, job), code=code, words=heard.get(code, ""))
    node = failed_node(end.words)
    return replace(end, nodes=end.nodes or (node,)) if code == NODE_FAILED and node else end


# A run that was lost


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
    end = _ask(SlurmRecords(_SECONDS), record.slurm_job, Window(record.slurm_since))
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
        slurm, jobs = SlurmRecords(_SECONDS), {record.slurm_job for record in asked}
        known = (*slurm.accounted(jobs), *slurm.queued(jobs))
        for record in asked:
            window = Window(record.slurm_since)
            found = _record(known, record.slurm_job, window, None)
            if found is not None:
                ends[record.id] = judge(found, window, None, user_name)
    return ends


def _ask(slurm: SlurmRecords, job: str, window: Window) -> JobEnd | None:
    now = slurm.job(job)
    record = _record(slurm.accounted([job]), job, window, now)
    if record is None:
        return None
    end = judge(record, window, now, user_name)
    look = end.code == NODE_FAILED and record.nodes
    return on_nodes(end, slurm.nodes(record.nodes)) if look else end


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
