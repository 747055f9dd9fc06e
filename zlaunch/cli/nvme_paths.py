"""The paths that NVMe offload will write to, as they lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from zlaunch.dsconfig.finding import Disk


def look_at(paths: Iterable[str]) -> Mapping[str, Disk]:
    """Look at each path without writing there."""
    return {path: _look(path) for path in paths}


def _look(path: str) -> Disk:
    try:
        Path(path).stat()
    except (OSError, ValueError):  # a name with a NUL
        return Disk(exists=False, makeable=_makeable(path))
    if not Path(path).is_dir():
        return Disk(exists=True)
    free = None
    try:
        found = os.statvfs(path)
        free = found.f_bavail * found.f_frsize
    except OSError:
        pass
    return Disk(exists=True, directory=True, writable=os.access(path, os.W_OK | os.X_OK), free=free)


def _makeable(path: str) -> bool:
    """Whether DeepSpeed can make it in a directory of the user's; in `/` disks are mounted."""
    above = Path(path).parent
    return str(above) != "/" and above.is_dir() and os.access(above, os.W_OK | os.X_OK)
