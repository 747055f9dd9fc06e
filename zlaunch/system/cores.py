"""How many CPU cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path


def usable_cores() -> int:
    """Return the cores of the affinity mask, fewer where a cgroup's quota allows fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, _quota()))


def _quota() -> int:
    """The quota of the own cgroup as a container sees it; without one, no bound."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # cgroup v1, no limit ("max"), or no cgroup at all
        return 1 << 20
