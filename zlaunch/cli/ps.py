"""`zlaunch ps`: the runs of this user."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.queue import print_queue, print_slurm
from zlaunch.cli.visible import visible
from zlaunch.errors import ZlaunchError
from zlaunch.launcher.report import duration
from zlaunch.run.record import LOST, QUEUED, RUNNING, RunRecord
from zlaunch.system.run_store import RunStore, home_directory
from zlaunch.system.rundir import RunDir

if TYPE_CHECKING:
    from zlaunch.run.job_end import JobEnd

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_SHOWN = 20


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def ps(
    everything: Annotated[
        bool,
        typer.Option(
            "--all", "-a", help=f"Not only the last {_SHOWN}; also those that started no rank."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="All runs, as a list of objects.")
    ] = False,
) -> None:
    """List runs, newest first."""
    with reader_may_leave():
        if as_json:
            records = list(_all())
            ends = _job_ends(records)
            told = [_summary(record, ends.get(record.id)) for record in records]
            typer.echo(json.dumps(told, indent=2))
            return
        shown = list(_all() if everything else _newest())
        if not shown:
            typer.echo("no runs yet")
            return
        _print_table(shown)
        print_queue({record.id: why for record in shown if (why := _waits_for(record))})
        print_slurm({record.id: why for record in shown if (why := _queued(record))})


def _all() -> Iterator[RunRecord]:
    for run in _runs():
        yield from _record(run)


def _newest() -> Iterator[RunRecord]:
    """The last that started a rank or were submitted, and whatever runs.

    Whoever submitted a run did not see it fail. Of others not even the record is read.
    """
    shown = 0
    for run in _runs():
        if shown < _SHOWN or run.launcher_lives():
            for record in _record(run):
                unseen = record.nothing_started and not record.submitted
                if not unseen and (shown < _SHOWN or not record.is_over):
                    shown += 1
                    yield record


def _runs() -> Iterator[RunDir]:
    return RunStore(home_directory(os.environ)).newest_first()


def _record(run: RunDir) -> Iterator[RunRecord]:
    """The record, if it can be read: a broken one must not hide the others."""
    try:
        yield run.read_record()
    except ZlaunchError as error:
        typer.echo(f"zlaunch: {error}", err=True)


def _waits_for(record: RunRecord) -> str:
    run = RunStore(home_directory(os.environ)).run(record.id)
    return run.waits_for() if record.state == RUNNING else ""


def _queued(record: RunRecord) -> str:
    if record.state != QUEUED:
        return ""
    from zlaunch.cli.slurm_queue import why_queued  # few runs are

    return why_queued(record)


def _summary(record: RunRecord, end: JobEnd | None) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "state": record.shown_state,
        "gathering": record.gathering,
        "waits_for": _waits_for(record) or _queued(record) or None,
        "job": record.job or None,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(record.started)),
        "world_size": record.world_size,
        "exit_code": record.exit_code,
        "seconds": round(_seconds(record), 3),
        "command": list(record.command),
        "cwd": record.cwd,
        "slurm": None if end is None else end.to_json(),
    }


def _seconds(record: RunRecord) -> float:
    now = record.started if record.is_over else time.time()
    return (record.ended or now) - record.started


def _job_ends(records: list[RunRecord]) -> dict[str, JobEnd]:
    """How Slurm ended the jobs of runs; nobody is asked where no run was lost in one."""
    jobs = [record for record in records if record.slurm_job and record.state != RUNNING]
    if not jobs:
        return {}
    from zlaunch.cli.job_end import job_ends_of

    store = RunStore(home_directory(os.environ))
    return job_ends_of((store.run(record.id), record) for record in jobs)


def _print_table(records: list[RunRecord]) -> None:
    headings = ("ID", "NAME", "STATE", "RANKS", "EXIT", "STARTED", "TOOK", "COMMAND")
    ends = _job_ends([record for record in records if record.state == LOST])
    rows = [headings, *(_row(record, ends.get(record.id)) for record in records)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(headings) - 1)]
    # What matters least stands last, and gives way where the terminal is narrow.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        line = "  ".join([*cells, row[-1]]).rstrip()
        typer.echo(line if width is None or len(line) <= width else line[: width - 1] + "…")


def _state(record: RunRecord, end: JobEnd | None) -> str:
    """`lost (TIMEOUT)` where Slurm says more of it."""
    if end is not None and record.state == LOST:
        return f"{LOST} ({end.state})"
    return "waiting" if _waits_for(record) else record.shown_state


def _row(record: RunRecord, end: JobEnd | None) -> tuple[str, ...]:
    return (
        record.id,
        visible(record.name or ""),
        _state(record, end),
        str(record.world_size or ""),
        "" if record.exit_code is None else str(record.exit_code),
        time.strftime("%m-%d %H:%M", time.localtime(record.started)),
        "" if record.state == LOST else duration(_seconds(record)),
        visible(" ".join(record.command)),
    )
