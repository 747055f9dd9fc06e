"""How much memory this host has for us: the machine's, fewer where a cgroup allows fewer."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def host_memory() -> int | None:
    """Bytes of memory that this process could have at most; None where nobody says."""
    limits = [size for size in (_machine(), *_cgroups()) if size]
    return min(limits) if limits else None


def _machine() -> int | None:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _read(Path("/proc/meminfo")), re.M)
    return int(found[1]) * 1024 if found else None


def _cgroups() -> list[int]:
    """The limits of the own cgroup and of those above it, of version 2 and version 1."""
    files = [_ROOT / "memory.max", _ROOT / "memory" / "memory.limit_in_bytes"]
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        own = Path(path.lstrip("/"))
        for folder in (own, *own.parents):
            if not controllers:
                files.append(_ROOT / folder / "memory.max")
            elif "memory" in controllers.split(","):
                files.append(_ROOT / "memory" / folder / "memory.limit_in_bytes")
    texts = (_read(path).strip() for path in files)
    return [int(text) for text in texts if re.fullmatch(r"[0-9]+", text)]


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:  # not this kind of system, or not ours to read
        return ""
