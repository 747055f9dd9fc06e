"""`zlaunch wait`: for the end of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from zlaunch.cli.how_ended import say_how_it_ended
from zlaunch.cli.one_run import RunArgument, ending, exit_code_of, find_run
from zlaunch.errors import InputError, TimeLimitError
from zlaunch.system.run_end import wait_for_end

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_LONGEST = 1e8  # seconds, some three years; select takes no more than the system's longest time


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def wait(
    run: RunArgument = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", help="Wait no longer; exit code 124."),
    ] = None,
) -> None:
    """Wait for the end of a run, and end with its exit code; of a lost one with 125."""
    if timeout is not None and not 0 <= timeout <= _LONGEST:
        raise InputError(f"--timeout {timeout:g}: seconds from 0 to {_LONGEST:g} are expected")
    found = find_run(run)
    if not wait_for_end(found, timeout):
        raise TimeLimitError(f"run {found.id} was still running after {timeout:g} s (--timeout)")
    record = found.read_record()
    typer.echo(f"run {record.id} {ending(record)}")
    say_how_it_ended(found, record, known=True)
    raise typer.Exit(exit_code_of(record))
