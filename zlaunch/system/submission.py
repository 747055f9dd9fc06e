"""A run between its submission to Slurm and the launcher that takes it up in the job.

Its directory is made at once. What the launcher needs lies in `submission.json` (0600), with the
arguments as they were typed, since Slurm would show what stands in a batch script; it is taken away
when the run is over. `stop-asked` says that somebody wants the run to end, for whoever finds that
its job has.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from zlaunch.errors import BackendError, InputError, ZlaunchError
from zlaunch.run.rank_states import rank_states
from zlaunch.run.record import LOST, QUEUED, RUNNING, RunRecord
from zlaunch.spec.slurm_queue import Job
from zlaunch.system.rundir import RunDir, unwritable
from zlaunch.system.slurm_commands import QUEUE

_TURN = 10.0  # seconds
_SOON = 5.0  # seconds until what a launcher elsewhere wrote last is seen here
_NAME, _STOP, SCRIPT = "submission.json", "stop-asked", "batch.sh"


def write_submission(run: RunDir, data: Mapping[str, Any]) -> None:
    """Make the directory of a run that is about to be submitted.

    Raises InputError where the place cannot be written.
    """
    run.create()
    run.release()
    os.close(run.open_to_append(run.console))  # Slurm would make it for others to read
    run.write_text(run.path / _NAME, json.dumps(data))


def read_submission(run: RunDir) -> dict[str, Any]:
    """Return what `write_submission` was given.

    Raises InputError where it is not there.
    """
    try:
        data = json.loads((run.path / _NAME).read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            f"run {run.id} is over, or not in {run.path.parent} of this node",
            hint="ZLAUNCH_HOME has to be in a file system that all nodes share",
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"{run.path / _NAME} cannot be read: {error}") from error
    return dict(data)


def write_first_record(run: RunDir, record: RunRecord) -> None:
    """Write run.json unless the launcher of a job that has begun already did.

    Raises InputError where that is not possible.
    """
    beside = run.path / f"run.json.{os.getpid()}"
    run.write_text(beside, json.dumps(record.to_json(), indent=1) + "\n")
    try:
        with suppress(FileExistsError):
            os.link(beside, run.record_path)
    except OSError:  # a file system without hard links
        if not run.has_record():
            beside.replace(run.record_path)
    finally:
        beside.unlink(missing_ok=True)


def take_up(run: RunDir, record_of: Callable[[], RunRecord]) -> None:
    """Be the launcher of a submitted run; `record_of` is called once nobody else can be.

    Raises InputError where another one is.
    """
    try:
        lock = os.open(run.lock_path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise unwritable(run.path, error) from error
    end = time.monotonic() + _TURN
    while not _locked(lock):  # who looks whether a launcher lives has it for a moment
        if time.monotonic() > end:
            raise InputError(f"run {run.id} has a launcher already")
        time.sleep(0.05)
    run.adopt(lock, record_of())


def _locked(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def forget_submission(run: RunDir) -> None:
    """The run is over, and no job takes it up again."""
    with suppress(OSError):
        (run.path / _NAME).unlink(missing_ok=True)


def ask_to_stop(run: RunDir) -> None:
    """Note down that somebody wants the run to end."""
    run.write_text(run.path / _STOP, "")


def stop_is_asked(run: RunDir) -> bool:
    """Whether somebody has."""
    return (run.path / _STOP).exists()


def attempts_before(run: RunDir, record: RunRecord) -> int:
    """How many attempts an earlier start of the job has made, of which there are logs."""
    states = rank_states(run.read_events(), record.world_size, over=True)
    return 1 + max((state.attempt for state in states), default=-1)


def by_slurm(run: RunDir, record: RunRecord) -> RunRecord:
    """Return how a submitted run stands that has no launcher, or none that can be seen from here.

    One whose job ended before a launcher took it up is over, which is written down. Where Slurm
    does not answer, nobody knows better than the record.
    """
    try:
        job = QUEUE.job(record.job)
    except BackendError:
        return record
    if job is not None and job.waits:
        return replace(record, state=QUEUED)
    if job is not None and not job.over:
        return record
    record = run.read_as_written()  # its launcher may have written its last word meanwhile
    if record.state == QUEUED:
        return _settle(run)
    if record.state == RUNNING and not (job and time.time() - _moment(job) < _SOON):
        return replace(record, state=LOST)
    return record


def _settle(run: RunDir) -> RunRecord:
    """Write down the end of a run that no launcher has taken up, and none can meanwhile."""
    with suppress(OSError):
        lock = os.open(run.lock_path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _settled(run)
        finally:
            os.close(lock)
    return run.read_as_written()


def _settled(run: RunDir) -> RunRecord:
    from zlaunch.run.outcome import Outcome

    record = run.read_as_written()
    if record.state != QUEUED:
        return record
    try:
        job = QUEUE.job(record.job, within=0.0)  # it may have been put back into the queue
    except BackendError:
        return record
    if job is not None and not job.over:
        return record
    attempts = attempts_before(run, record)
    if stop_is_asked(run) or (job is not None and job.cancelled):
        outcome = Outcome({}, stopped_by=signal.SIGTERM, attempts=attempts)
    elif job is None:
        return replace(record, state=LOST)
    else:
        outcome = Outcome({}, trouble=_why(run, job), attempts=attempts)
    ended = record.ended_with(outcome, max(record.started, _moment(job)))  # its seconds are whole
    with suppress(ZlaunchError):
        run.write_record(ended)
        forget_submission(run)
    return ended


def _why(run: RunDir, job: Job) -> str:
    reason = f" ({job.reason})" if job.reason else ""
    words = f"Slurm's job {job.id} ended before zlaunch could begin in it: {job.state}{reason}"
    with suppress(OSError):
        said = _last_said(run.console.read_text("utf-8", "replace"))
        if said:
            return f"{words}; the last it said: {said}"
    return f"{words}; is {run.path.parent.parent} there on its nodes?"


def _last_said(console: str) -> str:
    """The error, and not the hint below it; what slurmstepd says is of an earlier start."""
    lines = [line for line in console.strip().splitlines() if not line.startswith("slurmstepd")]
    errors = [line for line in lines if line.startswith("zlaunch: error: ")]
    return (errors or lines or [""])[-1]


def _moment(job: Job | None) -> float:
    with suppress(ValueError, OverflowError):
        if job is not None and job.end:
            return time.mktime(time.strptime(job.end, "%Y-%m-%dT%H:%M:%S"))
    return time.time()
