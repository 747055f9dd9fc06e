"""`zlaunch top`: the ranks of a run, live."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from zlaunch.cli.board_plain import plain_lines
from zlaunch.cli.one_run import JsonOption, RunArgument, ending, exit_code_of, find_run, say
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.snapshots import last_snapshot, live_snapshot
from zlaunch.cli.watch_run import Watch
from zlaunch.errors import ZlaunchError
from zlaunch.run.record import RUNNING
from zlaunch.system.control_socket import NoAnswerError
from zlaunch.system.launcher_end import LauncherEnd
from zlaunch.system.rundir import RunDir

_MOMENT = 5.0  # seconds

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def top(
    run: RunArgument = None,
    once: Annotated[bool, typer.Option("--once", help="Say it once, a line a rank.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the ranks of a run, live: state, step, loss, GPU, memory, last line.

    q or Ctrl-C leaves. Of a run that is over: what was known last. Without a terminal it is said
    once.
    """
    found = find_run(run)
    if as_json or once or not _on_terminal():
        snapshot = _snapshot(found)
        with reader_may_leave():
            typer.echo(json.dumps(snapshot) if as_json else "\n".join(plain_lines(snapshot)))
        return
    raise typer.Exit(_watch(found))


def _on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}


def _snapshot(run: RunDir) -> dict[str, Any]:
    """How the run stands; where it is over, or its launcher is silent, what the files say."""
    if run.read_record().shown_state == RUNNING:
        try:
            return live_snapshot(run)
        except NoAnswerError as error:
            if run.launcher_lives():  # it does not end just now
                say(str(error))
        except ZlaunchError as error:
            say(str(error))
    return last_snapshot(run)


def _watch(run: RunDir) -> int:
    """Show it on the whole screen until the user leaves, or the run ends."""
    record = run.read_record()
    if record.shown_state == RUNNING:
        try:
            if Watch(run).look():
                return 0
        except NoAnswerError:
            if run.launcher_lives():  # it does not end just now
                raise
        # The kernel closes what a killed launcher had open one after the other, its lock last.
        LauncherEnd(run).wait(_MOMENT)
        record = run.read_record()
    typer.echo("\n".join(plain_lines(last_snapshot(run))))
    if not record.is_over:  # it gathers, or waits for Slurm
        return 0
    say(f"run {run.id} {ending(record)}")
    return exit_code_of(record)
