"""Where it was measured: hardware, versions, and who else was there."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("zlaunch", "torch", "deepspeed", "accelerate")


def describe() -> dict[str, str]:
    """Name the machine and what is installed."""
    about = {
        "cores": str(len(os.sched_getaffinity(0))),
        "machine": f"{platform.machine()} {platform.system()}",
        "python": platform.python_version(),
    }
    return about | {name: _version(name) for name in _PACKAGES}


def load() -> str:
    """The load average of the last minute; near 0 on a machine of one's own."""
    return f"{os.getloadavg()[0]:.1f}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
