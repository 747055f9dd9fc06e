"""`zlaunch __submitted DIRECTORY`: what a batch script of `zlaunch submit` becomes.

The launcher of a run that was made at submission, in the job that Slurm has started for it; or that
it has started again, where the run goes on as its next attempt.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from zlaunch.cli.allocation import for_many
from zlaunch.cli.request import Request, check
from zlaunch.cli.start import see_through
from zlaunch.cli.submit_request import from_json
from zlaunch.errors import InputError
from zlaunch.run.record import QUEUED, RunRecord
from zlaunch.system.run_store import RunStore
from zlaunch.system.rundir import RunDir
from zlaunch.system.submission import (
    attempts_before,
    read_submission,
    stop_is_asked,
    take_up,
)

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_STOPPED = 143  # as TERM does


@app.command("__submitted", hidden=True)
def submitted(folder: Annotated[str, typer.Argument(metavar="DIRECTORY")]) -> None:
    """Be the launcher of this run."""
    run = RunDir(Path(folder))
    data = read_submission(run)
    request = _request(data, run)
    take_up(run, lambda: _record(run, data, os.environ))
    if stop_is_asked(run):
        raise typer.Exit(_STOPPED)
    _go_to(data)
    check(request)
    raise typer.Exit(see_through(request, RunStore(run.path.parent.parent), run))


def _request(data: Mapping[str, Any], run: RunDir) -> Request:
    allocation = for_many("slurm")
    assert allocation is not None
    try:
        return from_json(data["request"], allocation)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"run {run.id} was submitted by zlaunch {data.get('version')}, which this one does not "
            f"understand: {error}",
            hint="submit it again",
        ) from error


def _record(run: RunDir, data: Mapping[str, Any], env: Mapping[str, str]) -> RunRecord:
    """The record as this start of the job begins; written before, or not yet."""
    try:
        queued = RunRecord.from_json(data["record"])
    except (KeyError, TypeError) as error:
        raise InputError(f"run {run.id} was submitted by another version: {error}") from error
    before = run.read_as_written() if run.has_record() else queued
    attempts = attempts_before(run, before)
    restarts = env.get("SLURM_RESTART_COUNT", "")
    submitted = {
        **(queued.submitted or {}),
        "job": _job(env),
        "attempts": attempts,
        "restarts": int(restarts) if restarts.isdigit() else 0,
    }
    started = before.started if attempts else time.time()
    return replace(queued, started=started, state=QUEUED, submitted=submitted)


def _job(env: Mapping[str, str]) -> str:
    array, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else env["SLURM_JOB_ID"]


def _go_to(data: Mapping[str, Any]) -> None:
    """Where the user was."""
    try:
        os.chdir(data["cwd"])
    except OSError as error:
        raise InputError(
            f"{data['cwd']} is not on this node: {error.strerror}",
            hint="submit from a directory that all nodes share",
        ) from error
