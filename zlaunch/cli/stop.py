"""`zlaunch stop`: end a run from any shell, as TERM to its launcher does."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Annotated

import typer

from zlaunch.cli.one_run import (
    NamedRunArgument,
    ask_launcher,
    ending,
    over_already,
    say,
)
from zlaunch.errors import ZlaunchError
from zlaunch.launcher.report import duration
from zlaunch.run.control import request
from zlaunch.run.record import RUNNING, RunRecord
from zlaunch.spec.ranks import describe_ranks
from zlaunch.system.control_socket import NoAnswerError
from zlaunch.system.launcher_end import LauncherEnd
from zlaunch.system.launcher_signal import signal_launcher
from zlaunch.system.run_store import RunStore, home_directory
from zlaunch.system.rundir import RunDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_LEAVING = 0.5  # seconds that a launcher may take to go, once it has said how the run ended
_ENDING = 5.0  # seconds; a launcher that hears nobody any more is about to go


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def stop(
    run: NamedRunArgument,
    now: Annotated[bool, typer.Option("--now", help="Kill at once: no time to save.")] = False,
) -> None:
    """Stop a run and wait for its end: TERM to each rank, KILL once its --grace is over.

    Ends with 0 once nothing runs any more, also where nothing did. To ask twice is to ask once;
    --now ends the grace.
    """
    runs = RunStore(home_directory(os.environ)).find_all(run)
    try:
        if not _stop_submitted(runs, now=now):
            _stop(runs[0], now=now)
    except KeyboardInterrupt:
        known = runs[0].id
        say(f"run {known} is still being stopped; `zlaunch status {known}` shows how far")
        raise typer.Exit(130) from None


def _stop_submitted(runs: Sequence[RunDir], *, now: bool) -> bool:
    """End those that go by Slurm; return whether that was all there was to do."""
    records = {run: run.read_record() for run in runs}
    left = [run for run, record in records.items() if record.job and not record.is_over]
    if left:
        from zlaunch.cli.stop_submitted import stop_submitted  # few runs are

        stop_submitted(left, now=now)
        return True
    if len(runs) > 1:
        for record in records.values():
            typer.echo(over_already(record))
    return len(runs) > 1


def _stop(found: RunDir, *, now: bool) -> None:
    record = found.read_record()
    if record.state != RUNNING:
        typer.echo(over_already(record))
        _end_what_is_left(found, record, now=now)
        return
    end = LauncherEnd(found)
    if record.gathering is None:
        _ask(found, end, now=now)
    elif not signal_launcher(found, record.launcher_pid, signal.SIGTERM):  # it is deaf still
        raise ZlaunchError(
            f"the launcher of run {found.id} is no process here", hint=f"ask on {record.host}"
        )
    end.wait()
    if not found.has_record():
        typer.echo(f"run {found.id} could not be begun; nothing is left of it")
        return
    record = found.read_record()
    lasted = f" after {duration(record.ended - record.started)}" if record.ended else ""
    typer.echo(f"run {record.id} {ending(record)}{lasted}")


def _end_what_is_left(run: RunDir, record: RunRecord, *, now: bool) -> None:
    """Of a run that is over a launcher may be left: with --on-exit, to which it passes TERM on.

    Or one that asks Slurm, which takes some seconds where that is silent.
    """
    end = LauncherEnd(run)
    if end.wait(_LEAVING):
        return
    what = "--on-exit command" if "on_exit" in record.plan else "launcher"
    if now and signal_launcher(run, record.launcher_pid, signal.SIGTERM):
        say(f"its {what} is stopped")
        end.wait(_ENDING)
        return
    say(f"its {what} still runs; `zlaunch stop --now {run.id}` ends it")


def _ask(run: RunDir, end: LauncherEnd, *, now: bool) -> None:
    """Ask for it; a launcher that does not listen may just begin, or just end."""
    try:
        told = ask_launcher(run, request("stop", now=now))
    except NoAnswerError:
        if end.wait(_ENDING):
            return
        told = ask_launcher(run, request("stop", now=now))
    if told["ranks"]:
        within = f" within {told['grace']:g} s, --now ends that" if told["grace"] else " at once"
        say(f"stopping {describe_ranks(told['ranks'])} of run {run.id}{within}")
