"""A run that was named on the command line: found, spoken to, told of."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Annotated, Any

import typer

from zlaunch.errors import ZlaunchError
from zlaunch.run.record import FINISHED, GATHERING, LOST, QUEUED, RUNNING, STOPPED, RunRecord
from zlaunch.system.control_socket import NoAnswerError, ask
from zlaunch.system.run_store import RunStore, home_directory
from zlaunch.system.rundir import RunDir

RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Id, beginning of one, or name; the latest by default."),
]
NamedRunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Id, beginning of one, or name.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="As one JSON object.")]

_PATIENCE = 15.0  # seconds
_LOST_CODE = ZlaunchError.exit_code


def find_run(reference: str | None) -> RunDir:
    """Return the run that is meant.

    Raises InputError where there is none, or more than one.
    """
    return RunStore(home_directory(os.environ)).find(reference)


def ask_launcher(run: RunDir, line: bytes, within: float = _PATIENCE) -> dict[str, Any]:
    """Ask the launcher of a run, and return the fields of its answer, `within` so many seconds.

    Raises NoAnswerError where nobody answers, ZlaunchError where it cannot be done.
    """
    try:
        return ask(run, line, within)
    except NoAnswerError as error:
        record = run.read_record()
        host = record.host
        if waits := no_ranks_yet(record):
            raise NoAnswerError(waits) from error
        if not is_elsewhere(record):
            raise
        raise NoAnswerError(error.message, hint=f"it runs on {host}: ask there") from error


def is_elsewhere(record: RunRecord) -> bool:
    """Whether the launcher is on another machine, or was."""
    return record.host not in {"", socket.gethostname()}


def no_ranks_yet(record: RunRecord) -> str:
    """What to say of a run that gathers, or waits for its first start; empty of any other."""
    if record.state == QUEUED and not record.world_size:
        from zlaunch.cli.slurm_queue import why_queued  # few runs are

        return f"run {record.id} is queued: {why_queued(record)}; it has no ranks yet"
    if record.shown_state != GATHERING:
        return ""
    return f"run {record.id} still waits for {record.gathering}; it has no ranks yet"


def exit_code_of(record: RunRecord) -> int:
    """The exit code of a run that is over; nobody knows that of a lost one."""
    return _LOST_CODE if record.exit_code is None else record.exit_code


def ending(record: RunRecord) -> str:
    """`finished`, `failed (exit code 3)`, `was lost: its launcher is gone`, ... ."""
    code = f"(exit code {record.exit_code})"
    if record.state == RUNNING:
        return "is running"
    if record.state == QUEUED:
        return "is queued"
    if record.state == LOST:
        return "was lost: its launcher is gone, and with it how it ended"
    if record.state == FINISHED:
        return "finished"
    signum = (record.outcome or {}).get("stopped_by")
    if record.state == STOPPED and isinstance(signum, int):
        return f"was stopped by {signal.Signals(signum).name} {code}"
    return f"failed {code}"


def over_already(record: RunRecord) -> str:
    """What to say to who wants something of a run that is over."""
    from zlaunch.launcher.report import duration  # who follows logs does not pay for it

    if record.ended is None:
        return f"run {record.id} {ending(record)}"
    ago = duration(max(0.0, time.time() - record.ended))
    return f"run {record.id} is over already: it {ending(record)}, {ago} ago"


def say(text: str) -> None:
    """Say something beside the output."""
    typer.echo(f"zlaunch: {text}", err=True)
