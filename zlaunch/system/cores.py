"""How many CPU cores this process may use.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import math
import os


def usable_cores() -> int:
    """Return the cores of the affinity mask, fewer where a cgroup's quota allows fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, _quota()))


def _quota() -> int:
    """The quota of the own cgroup as a container sees it; without one, no bound."""
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # cgroup v1, no limit ("max"), or no cgroup at all
        return 1 << 20
