"""Processes that carry a mark in their environment: found, and killed without a mistake.

A mark is a few entries of /proc/PID/environ, such as `ZLAUNCH_RUN_ID=...`, and whoever has all of
them was started by the run. Names and command lines are not looked at, and a pid that was given to
a stranger meanwhile is not signalled: the handle on the process is opened first, and its
environment read once more through the same pid.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import Callable

from zlaunch.system.bounded import within

_LOOK_AGAIN = 0.005  # seconds
_HANGS = 1.0  # seconds beyond the deadline


def end_marked(mark: Collection[str], deadline: float, known: Collection[int] = ()) -> list[int]:
    """Kill all of this user's processes that have the whole mark; return those that stay.

    This process and its ancestors are left out, and so are the `known`, which are killed but not
    waited for. Where the system has no pidfd (Linux before 5.3, macOS) nothing is done.
    """
    if not mark or not can_signal_exactly():
        return []
    # To read the environment of a process that hangs in the kernel may hang as well.
    (left,) = within(
        max(0.0, deadline - time.monotonic()) + _HANGS,
        [partial(_end, frozenset(map(os.fsencode, mark)), deadline, known)],
    )
    return left or []


def find_marked(mark: Collection[str]) -> list[int]:
    """Return all of this user's processes that have the whole mark, save those that ask."""
    spared, wanted = {os.getpid(), *_ancestors()}, frozenset(map(os.fsencode, mark))
    return [pid for pid in _own_processes() if pid not in spared and _has(wanted, pid)]


def can_signal_exactly() -> bool:
    """Whether a process can be held by a handle."""
    return hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")


def kill_exactly(pid: int, is_meant: Callable[[int], bool]) -> None:
    """Send KILL to the process, if it is still the one that is meant."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if is_meant(pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _end(mark: frozenset[bytes], deadline: float, known: Collection[int]) -> list[int]:
    spared = {os.getpid(), *_ancestors()}
    is_meant = partial(_has, mark)
    while True:
        found = [pid for pid in _own_processes() if pid not in spared and is_meant(pid)]
        for pid in found:
            kill_exactly(pid, is_meant)
        left = [pid for pid in found if pid not in known]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_LOOK_AGAIN)  # those may have started others meanwhile


def _has(mark: frozenset[bytes], pid: int) -> bool:
    """Whether the process has the whole mark; one that has ended has none."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            data = file.read()
    except OSError:
        return False
    # Most processes are told apart without cutting up what may be long.
    return all(entry in data for entry in mark) and mark <= set(data.split(b"\0"))


def _own_processes() -> Iterator[int]:
    user = os.geteuid()
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(OSError):
                    if entry.stat().st_uid == user:
                        yield int(entry.name)


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    while pid > 0:
        yield pid
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            return
