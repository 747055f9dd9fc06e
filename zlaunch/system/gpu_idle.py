"""Which GPUs somebody uses: by their processes, their memory, and how busy they are.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from zlaunch.system.gpu_usage import memory_in_use, processes_on
from zlaunch.system.nvml import ask_nvml, optional

IDLE_MEMORY = 512 << 20  # bytes; a display or a monitor takes less
IDLE_PERCENT = 5  # of the last moment in which a kernel ran


def in_use(uuids: Collection[str], *, timeout: float) -> dict[str, str] | None:
    """Say of each GPU or MIG device that is not idle why; None where there is no NVML to ask.

    Raises BackendError for a driver that fails or does not answer within `timeout` seconds.
    """
    failed = "it could not be asked which GPUs are idle"
    return ask_nvml(lambda nvml: _all(nvml, uuids), failed, timeout=timeout)


def _all(nvml: Any, uuids: Collection[str]) -> dict[str, str]:
    found = {}
    for uuid in uuids:
        why = _why(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid))
        if why:
            found[uuid] = why
    return found


def _why(nvml: Any, handle: Any) -> str:
    users = processes_on(nvml, handle)
    used = 0
    with suppress(nvml.NVMLError):  # not told of what has no memory of its own
        used = memory_in_use(nvml, handle)
    rates = optional(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)  # not of a MIG device
    if users:
        more = f" and {len(users) - 1} more" if len(users) > 1 else ""
        return f"in use by {users[0]}{more}, {used / 2**30:.1f} GiB"
    if used >= IDLE_MEMORY:
        return f"in use, {used / 2**30:.1f} GiB"
    if rates is not None and rates.gpu >= IDLE_PERCENT:
        return f"busy ({rates.gpu} %)"
    return ""
