"""What a node's own counters say when a rank fails: kills for want of memory, room in /dev/shm.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import os
import re

_ROOT = "/sys/fs/cgroup"
_SHM = "/dev/shm"  # noqa: S108 - it is looked at, nothing is put there
_COUNTED = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class Signs:
    """Counters as they were when it was made, to be compared with later ones."""

    def __init__(self) -> None:
        self._before = _kills()

    def now(self) -> dict[str, int]:
        """Return what is known now.

        `oom_kills` are processes that the kernel has killed since for want of memory, in the
        agent's cgroup or, where that counts none, on the machine; `shm_size` and `shm_free` are
        in bytes.
        """
        risen = [after - before for after, before in zip(_kills(), self._before)]
        signs = {"oom_kills": next((count for count in risen if count > 0), 0)}
        try:
            shm = os.statvfs(_SHM)
        except OSError:  # not there, as on macOS
            return signs
        size, free = shm.f_frsize * shm.f_blocks, shm.f_frsize * shm.f_bavail
        return {**signs, "shm_size": size, "shm_free": free}


def _kills() -> list[int]:
    """The counters from the nearest to the furthest: cgroup v2, cgroup v1, the machine."""
    paths = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            paths.append(f"{_ROOT}{path.rstrip('/')}/memory.events")
        elif "memory" in controllers.split(","):
            paths.append(f"{_ROOT}/memory{path.rstrip('/')}/memory.oom_control")
    counts = [_COUNTED.search(_read(path)) for path in (*paths, "/proc/vmstat")]
    return [int(count[1]) if count else 0 for count in counts]


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:  # no such counter, or not ours to read
        return ""
