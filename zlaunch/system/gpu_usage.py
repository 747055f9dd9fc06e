"""The GPUs of a host with their driver, and who uses their memory.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from zlaunch.frozen import frozen
from zlaunch.spec.device import Device
from zlaunch.spec.facts import Gpu
from zlaunch.system.gpus import discover


@frozen
class Found:
    """What the driver says; `gpus` None where there is none. `cuda` is the latest it can do."""

    gpus: tuple[Gpu, ...] | None
    driver: str = ""
    cuda: str = ""


def look(*, timeout: float) -> Found:
    """Ask the driver.

    Raises BackendError where it does not answer. Without NVML the memory in use stays unknown.
    """
    devices = discover(timeout=timeout)
    if devices is None:
        return Found(None)
    gpus = tuple(_gpu(device) for device in devices)
    try:
        import pynvml as nvml
    except ImportError:
        return Found(gpus)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return Found(gpus)
    try:
        used = tuple(_with_usage(nvml, gpu) for gpu in gpus)
        return Found(used, nvml.nvmlSystemGetDriverVersion(), _cuda_version(nvml))
    except nvml.NVMLError:
        return Found(gpus)
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _gpu(device: Device) -> Gpu:
    return Gpu(device.index, device.uuid, device.name, device.memory, mig=device.mig)


def _cuda_version(nvml: Any) -> str:
    """`13.0` of 13000."""
    number = nvml.nvmlSystemGetCudaDriverVersion_v2()
    return f"{number // 1000}.{number % 1000 // 10}"


def _with_usage(nvml: Any, gpu: Gpu) -> Gpu:
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        return replace(gpu, used=memory_in_use(nvml, handle), users=processes_on(nvml, handle))
    except nvml.NVMLError:
        return gpu


def memory_in_use(nvml: Any, handle: Any) -> int:
    """Bytes in use, without those that the driver keeps for itself where it tells them apart."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError, TypeError, AttributeError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return int(memory.used)


def processes_on(nvml: Any, handle: Any) -> tuple[str, ...]:
    """Who computes there, such as `pid 812 (python)`."""
    try:
        processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError:
        return ()
    return tuple(_describe(process.pid) for process in processes)


def _describe(pid: int) -> str:
    """`pid 812 (python)`; the name is missing where the process is of another container."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text("utf-8", errors="replace")
    except OSError:
        return f"pid {pid}"
    return f"pid {pid} ({name.strip()})"
