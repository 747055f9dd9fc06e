"""`zlaunch signal`: a signal for the ranks of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from zlaunch.cli.forward_signals import signal_number
from zlaunch.cli.one_run import (
    NamedRunArgument,
    ask_launcher,
    find_run,
    is_elsewhere,
    no_ranks_yet,
    over_already,
)
from zlaunch.errors import InputError
from zlaunch.launcher.forwarding import signal_name
from zlaunch.run.control import request
from zlaunch.run.record import RUNNING, RunRecord
from zlaunch.spec.ranks import describe_ranks

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("signal", context_settings={"help_option_names": ["-h", "--help"]})
def signal_ranks(
    run: NamedRunArgument,
    name: Annotated[str, typer.Argument(metavar="SIGNAL", help="USR1, SIGUSR2, RTMIN+1, 10.")],
) -> None:
    """Pass a signal on to the main process of each rank: one of the run's --forward-signals."""
    found = find_run(run)
    record = found.read_record()
    if record.state != RUNNING:
        raise InputError(no_ranks_yet(record) or over_already(record))
    signum = signal_number(name)
    if record.job and is_elsewhere(record):
        _by_slurm(record, signum, name)
        return
    allowed = ask_launcher(found, request("status"))["signals"]
    if signum is None or signal_name(signum) not in allowed:
        names = ", ".join(allowed) or "none (--forward-signals none)"
        raise InputError(
            f"run {found.id} does not pass on {name}; it passes on {names}",
            hint="`zlaunch stop` ends a run; --forward-signals chooses at its start",
        )
    ranks = ask_launcher(found, request("signal", signum=signum))["ranks"]
    typer.echo(f"{signal_name(signum)} passed on to {describe_ranks(ranks)} of run {found.id}")


def _by_slurm(record: RunRecord, signum: int | None, name: str) -> None:
    """To a launcher on another machine, which says what it does about it in its console.log."""
    allowed = (record.submitted or {}).get("signals") or ()
    if signum is None or signal_name(signum) not in allowed:
        names = ", ".join(allowed) or "none (--forward-signals none)"
        raise InputError(f"run {record.id} does not pass on {name}; it passes on {names}")
    from zlaunch.system.slurm_commands import signal_batch

    signal_batch(record.job, signal_name(signum).removeprefix("SIG"))
    typer.echo(f"{signal_name(signum)} sent to the launcher of run {record.id} on {record.host}")
