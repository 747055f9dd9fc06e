"""`zlaunch report`: one page that tells of a run."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from zlaunch.cli.config_render import ForceOption, place_for, tell, write_beside
from zlaunch.cli.one_run import RunArgument, find_run
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.report_material import of_log, of_run
from zlaunch.cli.report_page import check_libraries, page_of
from zlaunch.errors import InputError
from zlaunch.run.record import RUNNING

_NAME = "report.html"
_PRIVATE = 0o600

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def report(
    run: RunArgument = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="LOG", help="A log of any launcher; - for stdin."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Not into the run directory; - for stdout."
        ),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write one HTML page about a run: timeline, curves, memory, causes, configuration.

    It goes into the run directory, says its path, and holds all that it needs. With --file, of a
    log that another launcher printed, into ./report.html.
    """
    if file is not None and run is not None:
        raise InputError("a run and --file are two things", hint="give one of them")
    check_libraries()
    now = time.time()
    if file is not None:
        place = _place(output or _NAME, force=force)
        material = of_log(file)
    else:
        found = find_run(run)
        place = found.report if output is None else _place(output, force=force)
        material = of_run(found, now)
    _give(page_of(material, now), place)
    if material.state == RUNNING:
        tell((f"run {material.title} still goes on: this is how it stands now",))


def _place(output: str, *, force: bool) -> Path | None:
    return None if output == "-" else place_for(output, force=force)


def _give(page: str, place: Path | None) -> None:
    """Write the page for this user alone, or to stdout."""
    if place is not None:
        write_beside(place, page, mode=_PRIVATE)
        typer.echo(place)
        return
    with reader_may_leave():
        sys.stdout.write(page)
        sys.stdout.flush()
