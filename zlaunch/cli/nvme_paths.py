"""The paths that NVMe offload will write to, as they lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from zlaunch.dsconfig.finding import Disk
from zlaunch.spec.hostfile import Host

_PATIENCE = 5.0  # seconds for the names of hosts
_NAMED = 4  # hosts that are told by name


def look_at(paths: Iterable[str]) -> Mapping[str, Disk]:
    """Look at each path without writing there."""
    return {path: _look(path) for path in paths}


def look_where_it_is_here(
    paths: Sequence[str], hosts: Sequence[Host]
) -> tuple[Mapping[str, Disk], str | None]:
    """Look at the paths where one of the hosts is this machine; say on which it was not."""
    if not paths:
        return {}, None
    from zlaunch.system.here import which_are_here

    here = which_are_here(hosts, Path.home(), _PATIENCE)
    others = [host.name for host, is_here in zip(hosts, here, strict=True) if not is_here]
    disks = look_at(paths) if any(here) else {}
    if not others:
        return disks, None
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    names = ", ".join(others[:_NAMED])
    return disks, f"{' and '.join(paths)} for offload to NVMe: not looked at on {names}{more}"


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
