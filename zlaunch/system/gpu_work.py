"""How busy GPUs are, asked of NVML by way of ctypes: on a host there may be no bindings.

Travels to the agent, so it stays within Python 3.9 and the standard library. A driver may hang:
ask it in a process that can be killed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import suppress

from zlaunch.frozen import frozen

_UUID = 96  # bytes


@frozen
class GpuWork:
    """Percent of the last moment in which a kernel ran, and in which memory was read or written.

    NCCL waits in a kernel: the first is 100 on a rank that hangs in a collective, the second 0.
    """

    kernels: int
    memory: int


class Rates(ctypes.Structure):
    """What NVML fills in, in percent."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def gpu_work(tokens: Sequence[str]) -> dict[str, GpuWork]:
    """Return how busy each GPU is, by its token of CUDA_VISIBLE_DEVICES: an index or a UUID.

    One that NVML does not tell of (a part of a GPU, no driver) is left out.
    """
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return {}
    found: dict[str, GpuWork] = {}
    with suppress(AttributeError):  # a library without one of these functions
        if nvml.nvmlInit_v2() == 0:
            for index, uuid, handle in devices(nvml):
                rates = Rates()
                if nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) == 0:
                    work = GpuWork(rates.gpu, rates.memory)
                    names = (t for t in tokens if t == str(index) or (t and uuid.startswith(t)))
                    found.update(dict.fromkeys(names, work))
            nvml.nvmlShutdown()
    return found


def devices(nvml: ctypes.CDLL) -> Iterator[tuple[int, str, ctypes.c_void_p]]:
    """Give index, UUID and handle of each GPU."""
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
            uuid = ctypes.create_string_buffer(_UUID)
            nvml.nvmlDeviceGetUUID(handle, uuid, _UUID)
            yield index, uuid.value.decode("ascii", "replace"), handle
