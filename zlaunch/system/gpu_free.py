"""Which GPUs are taken at this moment: by a lease, or by somebody who has none.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from zlaunch.spec.device import Device
from zlaunch.spec.leases import lock_names
from zlaunch.system.gpu_idle import in_use
from zlaunch.system.leases import Leases


def taken_now(devices: Sequence[Device], folder: str, *, timeout: float) -> set[str] | None:
    """Return the names of locks (`lock_names`) of what is held or used; None without NVML.

    `folder` is the directory of leases, "" for the user's own. Raises BackendError for a driver
    that fails or does not answer within `timeout` seconds.
    """
    uuids = [uuid for device in devices for uuid in (device.uuid, *device.mig)]
    used = in_use(uuids, timeout=timeout)
    if used is None:
        return None
    names = {lock_names(uuid, devices)[0] for uuid in uuids}
    return _held(names, folder) | {lock_names(uuid, devices)[0] for uuid in used}


def _held(names: Collection[str], folder: str) -> set[str]:
    held: set[str] = set()
    try:
        leases = Leases(folder, make=False)
    except OSError:  # nobody has any, or whoever takes some will say what is wrong
        return held
    try:
        with suppress(OSError), leases.turn():
            held = {name for name in names if leases.holder(name)}
    finally:
        leases.close()
    return held
