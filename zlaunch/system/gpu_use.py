"""How much of GPUs is used, and by which processes, asked of NVML again and again.

Travels to the agent, so it stays within Python 3.9 and the standard library. A driver may hang:
ask it in a process that can be killed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from zlaunch.system.gpu_work import Rates, devices

_MOST_USERS = 256
_NOT_TOLD = (1 << 64) - 1


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class _Memory2(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    )


class _User(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("instances", ctypes.c_uint * 2),
    )


class GpuMeter:
    """Holds NVML open for the GPUs of `tokens` of CUDA_VISIBLE_DEVICES: indices or UUIDs."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._gpus: dict[str, ctypes.c_void_p] = {}
        # Without a driver, or with a library that lacks a function, nothing is told.
        with suppress(OSError, AttributeError):
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if self._nvml.nvmlInit_v2() == 0:
                self._find(tokens)

    def _find(self, tokens: Sequence[str]) -> None:
        for index, uuid, handle in devices(self._nvml):
            names = (t for t in tokens if t == str(index) or (t and uuid.startswith(t)))
            self._gpus.update(dict.fromkeys(names, handle))
        for token in tokens:
            part = ctypes.c_void_p()
            if token.startswith("MIG-"):
                found = self._nvml.nvmlDeviceGetHandleByUUID(token.encode(), ctypes.byref(part))
                if found == 0:
                    self._gpus[token] = part

    def read(self) -> dict[str, dict[str, Any]]:
        """Return for each token what is known now.

        `total` and `used` in bytes, `kernels` as in `GpuWork`, and in `users` the bytes of each
        pid that the driver tells of.
        """
        return {token: self._one(handle) for token, handle in self._gpus.items()}

    def _one(self, gpu: ctypes.c_void_p) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for ask in (self._memory, self._work, self._users):
            with suppress(AttributeError):  # a library without the function
                told.update(ask(gpu))
        return told

    def _memory(self, gpu: ctypes.c_void_p) -> dict[str, int]:
        """The second form leaves out what the driver keeps for itself."""
        memory2 = _Memory2(version=ctypes.sizeof(_Memory2) | 2 << 24)
        with suppress(AttributeError):
            if self._nvml.nvmlDeviceGetMemoryInfo_v2(gpu, ctypes.byref(memory2)) == 0:
                return {"total": memory2.total, "used": memory2.used}
        memory = _Memory()
        if self._nvml.nvmlDeviceGetMemoryInfo(gpu, ctypes.byref(memory)) == 0:
            return {"total": memory.total, "used": memory.used}
        return {}

    def _work(self, gpu: ctypes.c_void_p) -> dict[str, int]:
        rates = Rates()
        if self._nvml.nvmlDeviceGetUtilizationRates(gpu, ctypes.byref(rates)) == 0:
            return {"kernels": rates.gpu}
        return {}

    def _users(self, gpu: ctypes.c_void_p) -> dict[str, dict[str, int]]:
        users, count = (_User * _MOST_USERS)(), ctypes.c_uint(_MOST_USERS)
        ask = self._nvml.nvmlDeviceGetComputeRunningProcesses_v3
        if ask(gpu, ctypes.byref(count), users) != 0:
            return {}
        there = users[: count.value]
        return {"users": {str(one.pid): one.memory for one in there if one.memory != _NOT_TOLD}}
