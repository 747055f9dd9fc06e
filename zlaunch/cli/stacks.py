"""`zlaunch stacks`: where the ranks of a run are just now."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from zlaunch.cli.one_run import no_ranks_yet
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.errors import InputError
from zlaunch.run.control import request
from zlaunch.run.record import LOST, RUNNING
from zlaunch.system.control_socket import ask
from zlaunch.system.run_stacks import kept_stacks
from zlaunch.system.run_store import RunStore, home_directory
from zlaunch.system.rundir import RunDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_PATIENCE = 15.0  # seconds; the launcher itself waits for agents no longer than 6


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def stacks(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Id, beginning of one, or name; latest by default."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All of it, as an object.")] = False,
) -> None:
    """Say where each rank of a running run is in its Python code; the odd ones out first.

    Of a run that is over: what was seen of it last.
    """
    found = RunStore(home_directory(os.environ)).find(run)
    record = found.read_record()
    if waits := no_ranks_yet(record):
        raise InputError(waits)
    if record.state != RUNNING:
        _show_last(found, record.state, as_json=as_json)
        return
    told = ask(found, request("stacks"), _PATIENCE)
    with reader_may_leave():
        typer.echo(json.dumps(told, indent=2) if as_json else _text(told))


def _text(told: dict[str, Any]) -> str:
    """The line, and under it each group's stacks, once."""
    lines = [told["line"], *told["flight"]]
    by_rank = {one["rank"]: one for one in told["ranks"]}
    for group in told["groups"]:
        first = by_rank[group["ranks"][0]]
        if first["stacks"]:
            lines += ["", f"rank {first['rank']} {group['where']}:", first["stacks"].rstrip("\n")]
    if told["file"]:
        lines += ["", f"all of it: {told['file']}"]
    return "\n".join(lines)


def _show_last(run: RunDir, state: str, *, as_json: bool) -> None:
    gone = "its launcher is gone (lost)" if state == LOST else f"it is over ({state})"
    kept = kept_stacks(run)
    if not kept:
        raise InputError(
            f"run {run.id}: {gone}, and its stacks were never taken",
            hint="`zlaunch stacks` while it runs, or `--hang-timeout MIN` from the start",
        )
    text = kept[-1].read_text("utf-8", errors="replace")
    with reader_may_leave():
        if as_json:
            typer.echo(json.dumps({"state": state, "file": str(kept[-1]), "text": text}, indent=2))
            return
        typer.echo(f"zlaunch: run {run.id}: {gone}; what was seen last: {kept[-1]}", err=True)
        typer.echo(text.rstrip("\n"))
