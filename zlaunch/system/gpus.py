"""The GPUs of this machine, as NVML or nvidia-smi describes them.

Never through torch or CUDA: a process that has initialised CUDA can no longer fork
workers that use it. Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from typing import Any

from zlaunch.errors import BackendError
from zlaunch.frozen import frozen
from zlaunch.spec.device import Device
from zlaunch.system.nvml import ask_nvml, handles, optional

_QUERY = (
    "--query-gpu=index,uuid,name,memory.total,compute_cap",
    "--format=csv,noheader,nounits",
)
_LISTED_GPU = re.compile(r"GPU ([0-9]+): (.*) \(UUID: (GPU-[^\s()]+)\)")
_LISTED_MIG = re.compile(r"\s+MIG .*\(UUID: (MIG-[^\s()]+)\)")
_NO_DRIVER = (4, 9, 12)  # nvidia-smi's codes: no permission, no driver, no NVML library
_BF16_SINCE = (8, 0)
_MIB = 1024 * 1024


def discover(*, timeout: float = 10.0) -> tuple[Device, ...] | None:
    """List the GPUs that this process may use; None where there is no driver to ask.

    Every question is given up after `timeout` seconds: a wedged driver answers none.
    """
    answer = ask_nvml(_nvml_devices, "the GPUs could not be listed", timeout=timeout)
    return _ask_smi(timeout) if answer is None else answer


# --- NVML ----------------------------------------------------------------------------


def _nvml_devices(nvml: Any) -> tuple[Device, ...]:
    return tuple(_nvml_device(nvml, handle, index) for index, handle in enumerate(handles(nvml)))


def _nvml_device(nvml: Any, handle: Any, index: int) -> Device:
    memory = optional(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    capability = optional(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return Device(
        index,
        nvml.nvmlDeviceGetUUID(handle),
        name=nvml.nvmlDeviceGetName(handle),
        memory=int(memory.total) if memory is not None else 0,
        bf16=capability is None or tuple(capability) >= _BF16_SINCE,
        mig=_nvml_mig(nvml, handle),
    )


def _nvml_mig(nvml: Any, handle: Any) -> tuple[str, ...]:
    mode = optional(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return ()
    uuids: list[str] = []
    for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(nvml.NVMLError_NotFound, nvml.NVMLError_NoPermission):
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            uuids.append(nvml.nvmlDeviceGetUUID(part))
    return tuple(uuids)


# --- nvidia-smi ----------------------------------------------------------------------


@frozen
class _Printed:
    """What one call of nvidia-smi came to."""

    code: int
    text: str

    @property
    def no_device(self) -> bool:
        """The driver answered that it has no device."""
        return re.match(r"No devices (were )?found", self.text.strip()) is not None

    def unreadable(self) -> BackendError:
        """Build the error that quotes it."""
        shown = " ".join(self.text.split())
        shown = f"{shown[:200]}..." if len(shown) > 203 else shown
        return BackendError(
            f"nvidia-smi (exit code {self.code}) printed no list of GPUs: {shown!r}",
            hint="run nvidia-smi -L by hand: it must list the GPUs",
        )


def _ask_smi(timeout: float) -> tuple[Device, ...] | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    printed = run_smi(program, _QUERY, timeout)
    if printed.code in _NO_DRIVER:
        return None
    if printed.no_device:
        return ()
    queried = _parse_query(printed.text) if printed.code == 0 else None
    listing = run_smi(program, ("-L",), timeout)
    listed = _parse_listing(listing.text) if listing.code == 0 else None
    if queried:
        parts = {device.uuid: device.mig for device in listed or ()}
        return tuple(replace(device, mig=parts.get(device.uuid, ())) for device in queried)
    if listing.code in _NO_DRIVER:
        return None
    if listing.no_device:
        return ()
    if listed is None:
        query_spoke = printed.code == 0 and printed.text.strip()
        raise (printed if query_spoke or not listing.text.strip() else listing).unreadable()
    return listed


def run_smi(program: str, arguments: tuple[str, ...], timeout: float) -> _Printed:
    """Run nvidia-smi.

    Raises BackendError where it cannot be started, or does not end in time.
    """
    try:
        process = subprocess.Popen(
            (program, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(f"{program} could not be started: {error}") from error
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise BackendError(
            f"nvidia-smi did not answer within {timeout:g} s",
            hint="the driver, or a GPU, needs a reset",
        ) from None
    except BaseException:
        _kill(process)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
    return _Printed(process.returncode, output.decode(errors="replace"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process stuck inside the driver cannot be reaped; it is left, not waited for.
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)


def _parse_query(text: str) -> tuple[Device, ...] | None:
    devices: list[Device] = []
    for line in filter(str.strip, text.splitlines()):
        index, _, rest = line.partition(", ")
        uuid, _, rest = rest.partition(", ")
        fields = rest.rsplit(", ", 2)
        if not (re.fullmatch(r"[0-9]+", index) and uuid.startswith("GPU-") and len(fields) == 3):
            return None
        name, memory, capability = (field.strip() for field in fields)
        devices.append(Device(int(index), uuid, name, _memory(memory), bf16=_has_bf16(capability)))
    return tuple(devices)


def _memory(mebibytes: str) -> int:
    return int(mebibytes) * _MIB if re.fullmatch(r"[0-9]+", mebibytes) else 0  # [N/A] on an SoC


def _has_bf16(capability: str) -> bool:
    numbers = re.fullmatch(r"([0-9]+)\.([0-9]+)", capability)
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= _BF16_SINCE


def _parse_listing(text: str) -> tuple[Device, ...] | None:
    devices: list[Device] = []
    for line in filter(str.strip, text.splitlines()):
        gpu, part = _LISTED_GPU.match(line), _LISTED_MIG.match(line)
        if gpu:
            devices.append(Device(int(gpu[1]), gpu[3], gpu[2]))
        elif part and devices:
            devices[-1] = replace(devices[-1], mig=(*devices[-1].mig, part[1]))
        else:
            return None
    return tuple(devices)
