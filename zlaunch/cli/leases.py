"""Leases of GPUs, as the command line asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zlaunch.cli.place import Place
from zlaunch.cli.request import Request
from zlaunch.cli.waiting import read_duration
from zlaunch.errors import InputError
from zlaunch.launcher.leasing import Wanted
from zlaunch.system.rundir import RunDir

if TYPE_CHECKING:
    from zlaunch.system.background import Away

_DIRECTORY = "ZLAUNCH_LEASE_DIR"
_IN_RUN = "ZLAUNCH_RUN_ID"


def lease_folder(given: str | None, env: Mapping[str, str]) -> str:
    """Return where leases are to be, "" for the user's own place.

    Raises InputError for a path that says something else on another host.
    """
    text = given if given is not None else env.get(_DIRECTORY, "")
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        path = Path(text)
    if text and not path.is_absolute():
        option = "--lease-dir" if given is not None else _DIRECTORY
        raise InputError(
            f"{option} {text}: an absolute path is needed", hint="the same on all hosts"
        )
    return str(path) if text else ""


def wanted_leases(request: Request, place: Place, env: Mapping[str, str]) -> Wanted | None:
    """Return what every node is to take; None where none is wanted.

    What a run starts itself, on its own GPUs, needs no lease of them: the run has it.
    """
    asked = request.idle or request.wait is not None
    if place.devices.kind == "cpu" or request.share_gpus or (_IN_RUN in env and not asked):
        return None
    known = () if place.remote else place.devices.known
    return Wanted(
        pools={rank: place.pools.get(rank, host.slots) for rank, host in enumerate(place.hosts)},
        counts={rank: len(host.slots) for rank, host in enumerate(place.hosts)},
        wait=read_duration(request.wait),
        idle=request.idle,
        folder=lease_folder(request.lease_dir, env),
        devices=tuple((device.index, device.uuid, device.mig) for device in known),
        nvml=_bindings(place) if request.idle or not known else "",
    )


def _bindings(place: Place) -> str:
    """Of NVML: their path for this machine alone, their source for others."""
    from zlaunch.cli.question import nvml_path, nvml_source

    return nvml_source() if place.remote else nvml_path()


def tell_of_waiting(run: RunDir, away: Away | None) -> Callable[[str], None]:
    """Return what notes down why a run waits, and lets go of who waits for it to begin."""
    told: list[str] = []

    def tell(why: str) -> None:
        run.wait_for(why)
        if away is not None and why and not told:
            away.starting()
            away.running(run.id)
        told.append(why)

    return tell
