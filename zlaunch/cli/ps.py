"""`zlaunch ps`: the runs of this user."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import Annotated, Any

import typer

from zlaunch.cli.pipes import reader_may_leave
from zlaunch.errors import ZlaunchError
from zlaunch.launcher.report import duration
from zlaunch.run.record import LOST, RUNNING, RunRecord
from zlaunch.system.rundir import RunStore, home_directory

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_SHOWN = 20


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def ps(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help=f"Not only the last {_SHOWN} that started a rank.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="All runs, as a list of objects.")
    ] = False,
) -> None:
    """List runs, newest first."""
    with reader_may_leave():
        _list(_records(), everything=everything, as_json=as_json)


def _list(records: list[RunRecord], *, everything: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([_summary(record) for record in records], indent=2))
        return
    if not everything:
        started = [record for record in records if not record.nothing_started]
        records = [r for i, r in enumerate(started) if i < _SHOWN or r.state == RUNNING]
    shown = records
    if not shown:
        typer.echo("no runs yet")
        return
    _print_table(shown)


def _records() -> list[RunRecord]:
    records = []
    for run in RunStore(home_directory(os.environ)).newest_first():
        try:
            records.append(run.read_record())
        except ZlaunchError as error:  # one broken record must not hide the others
            typer.echo(f"zlaunch: {error}", err=True)
    return records


def _summary(record: RunRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "state": record.state,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(record.started)),
        "world_size": record.world_size,
        "exit_code": record.exit_code,
        "seconds": round(_seconds(record), 3),
        "command": list(record.command),
        "cwd": record.cwd,
    }


def _seconds(record: RunRecord) -> float:
    now = time.time() if record.state == RUNNING else record.started
    return (record.ended or now) - record.started


def _print_table(records: list[RunRecord]) -> None:
    headings = ("ID", "NAME", "STATE", "RANKS", "EXIT", "STARTED", "TOOK", "COMMAND")
    rows = [headings, *(_row(record) for record in records)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(headings) - 1)]
    # What matters least stands last, and gives way where the terminal is narrow.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        line = "  ".join([*cells, row[-1]]).rstrip()
        typer.echo(line if width is None or len(line) <= width else line[: width - 1] + "…")


def _row(record: RunRecord) -> tuple[str, ...]:
    return (
        record.id,
        _visible(record.name or ""),
        record.state,
        str(record.world_size),
        "" if record.exit_code is None else str(record.exit_code),
        time.strftime("%m-%d %H:%M", time.localtime(record.started)),
        "" if record.state == LOST else duration(_seconds(record)),
        _visible(" ".join(record.command)),
    )


def _visible(text: str) -> str:
    """Show control characters as they are written in Python, instead of obeying them."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
