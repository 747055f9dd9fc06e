"""Reads /proc: who descends from whom, and what a process has used."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_KIBIBYTE = 1024
_TICKS = os.sysconf("SC_CLK_TCK")  # a second of CPU time


def descendants(pid: int) -> set[int]:
    """All processes below `pid`, without itself."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    left = [pid]
    while left:
        below = children.get(left.pop(), [])
        found.update(below)
        left += below
    return found


def own_processes(launcher: int, workers: Iterable[int]) -> set[int]:
    """The launcher and what it started for itself: no worker, and nothing below one."""
    found = {launcher} | descendants(launcher)
    for worker in workers:
        found -= {worker} | descendants(worker)
    return found


def megabytes(pid: int, name: str) -> float:
    """A line of /proc/PID/status, such as VmRSS or VmHWM; 0 where the process has gone."""
    for line in _read(_PROC / str(pid) / "status").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * _KIBIBYTE / 1e6
    return 0.0


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, to the nanosecond where the kernel tells it."""
    threads = [_read(path / "schedstat") for path in _threads(pid)]
    if threads and all(threads):
        return sum(int(text.split()[0]) for text in threads) / 1e9
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def cpu_seconds_with_reaped(pid: int) -> float:
    """The same, to the tick, and of all below that has ended and was waited for."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _TICKS


def voluntary_switches(pid: int) -> int:
    """How often a thread of the process went to sleep, and so was woken up."""
    count = 0
    for path in _threads(pid):
        for line in _read(path / "status").splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                count += int(line.split()[1])
    return count


def _threads(pid: int) -> list[Path]:
    try:
        return list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, ..."""
    return _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
