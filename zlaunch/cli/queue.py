"""Who waits for GPUs, in the order in which they are served, and for what."""

from __future__ import annotations

import os
from collections.abc import Mapping

import typer

from zlaunch.cli.leases import lease_folder
from zlaunch.cli.visible import visible
from zlaunch.errors import InputError
from zlaunch.spec.leases import Claim
from zlaunch.system.leases import Leases, describe


def print_queue(own: Mapping[str, str]) -> None:
    """Print the queue of this machine, and why each of the `own` runs waits that is not in it.

    Those are in queues of other hosts, or in a directory that has been named for them alone.
    """
    waiting = _queue()
    if waiting:
        typer.echo("\nwaiting for GPUs of this machine, first come first served:")
    for place, claim in enumerate(waiting, 1):
        typer.echo(f"  {place}. {describe(claim)}: {claim.why}")
    elsewhere = own.keys() - {claim.run for claim in waiting}
    if elsewhere:
        typer.echo("\nwaiting for GPUs elsewhere:")
    for run_id in sorted(elsewhere):
        typer.echo(f"  run {run_id}: {visible(own[run_id])}")


def print_slurm(queued: Mapping[str, str]) -> None:
    """Print why runs wait that were submitted."""
    if queued:
        typer.echo("\nwaiting for Slurm:")
    for run_id, why in queued.items():
        typer.echo(f"  run {run_id}: {visible(why)}")


def _queue() -> list[Claim]:
    try:
        leases = Leases(lease_folder(None, os.environ), make=False)
    except (OSError, InputError):
        return []
    try:
        with leases.turn():
            return [claim for _, claim in leases.queue()]
    except OSError:
        return []
    finally:
        leases.close()
