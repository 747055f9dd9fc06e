"""What /proc says of other processes of this user: state, session, what they have used so far.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import os
from contextlib import suppress

from zlaunch.frozen import frozen

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@frozen
class Status:
    """One process.

    `cpu` is what all its threads have used, `children` what its dead children had, in seconds;
    `began` orders processes by age; `rss` is its memory in bytes, what it shares included.
    """

    pid: int
    state: str
    session: int
    cpu: float
    children: float
    began: int
    rss: int


def status(pid: int) -> Status | None:
    """Return what is known of a process; None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # The name stands in parentheses and may hold any byte, these too.
    fields = line[line.rindex(b")") + 2 :].split()
    user, system, dead_user, dead_system = (int(field) / _TICK for field in fields[11:15])
    cpu, children = user + system, dead_user + dead_system
    began, pages = int(fields[19]), int(fields[21])
    return Status(pid, fields[0].decode(), int(fields[3]), cpu, children, began, pages * _PAGE)


def sessions() -> dict[int, list[Status]]:
    """All processes that can be seen, the oldest first, by their session."""
    found: dict[int, list[Status]] = {}
    for name in os.listdir("/proc"):
        one = status(int(name)) if name.isdigit() else None
        if one is not None:
            found.setdefault(one.session, []).append(one)
    for members in found.values():
        members.sort(key=lambda one: one.began)
    return found


def transferred(pid: int) -> int:
    """Bytes that a process has read and written so far, from whatever."""
    with suppress(OSError), open(f"/proc/{pid}/io", "rb") as file:
        return sum(int(line.split()[1]) for line in file.read().splitlines()[:2])
    return 0


def catches(pid: int, signum: int) -> bool:
    """Whether a process has a handler for a signal; without one it would die of it."""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def has_open(pid: int, path: str) -> bool:
    """Whether a process has a file open."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") == path:
                    return True
    return False


def environment(pid: int) -> dict[str, str]:
    """The environment that a process began with."""
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        pairs = (os.fsdecode(entry).partition("=") for entry in file.read().split(b"\0") if entry)
        return {name: value for name, _, value in pairs}
    return {}


def waits_in(pid: int) -> str:
    """The function of the kernel in which a process sleeps; empty where that is not told."""
    with suppress(OSError), open(f"/proc/{pid}/wchan", "rb") as file:
        name = file.read().decode("ascii", "replace")
        return "" if name == "0" else name
    return ""
