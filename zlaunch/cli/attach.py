"""`zlaunch attach`: what a run shows, at this terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from zlaunch.cli.how_ended import say_how_it_ended
from zlaunch.cli.logs import follow_all
from zlaunch.cli.one_run import RunArgument, exit_code_of, find_run, over_already, say
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.slurm_queue import why_queued
from zlaunch.run.record import LOST, QUEUED
from zlaunch.system.console_log import last_line_end
from zlaunch.system.follow import ConsoleFollower, wait_until_planned
from zlaunch.system.rundir import RunDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_INTERRUPTED = 130
_LONGEST_LINE = 1 << 20  # bytes


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def attach(
    run: RunArgument = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="All of it, not only what comes from now on.")
    ] = False,
) -> None:
    """Show what a run shows, until it ends; then end with its exit code.

    Ctrl-C leaves the run as it is. Of a run at another terminal: what its ranks write.
    """
    found = find_run(run)
    record = found.read_record()
    if record.is_over and not from_start:
        say(f"{over_already(record)}; --from-start shows all of it")
        raise typer.Exit(exit_code_of(record))
    with reader_may_leave():
        try:
            _follow(found, from_start=from_start)
        except KeyboardInterrupt:
            say(f"left run {found.id}, which goes on; `zlaunch stop {found.id}` ends it")
            raise typer.Exit(_INTERRUPTED) from None
    record = found.read_record()
    if record.state == LOST or not found.has_console:  # which has the launcher's last words
        say_how_it_ended(found, record)
    raise typer.Exit(exit_code_of(record))


def _follow(run: RunDir, *, from_start: bool) -> None:
    def introduce() -> None:
        if not run.read_record().is_over:
            say(f"attached to run {run.id}; Ctrl-C leaves it as it is")

    record = run.read_record()
    if record.state == QUEUED:
        say(f"run {run.id} is queued: {why_queued(record)}")
    if not run.has_console:
        wait_until_planned(run)
        follow_all(run, introduce, from_start=from_start)
        return
    begin = 0 if from_start else last_line_end(run, _LONGEST_LINE)
    follower = ConsoleFollower(run, begin, _print, _lose)
    introduce()
    try:
        follower.follow()
    finally:
        follower.close()


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _lose(size: int) -> None:
    say(f"{size:,} bytes of its console are gone (--log-max)")
