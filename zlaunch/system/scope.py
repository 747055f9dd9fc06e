"""A control group of its own for what a node's workers start, where the user may make one.

None of them gets out of it, whatever sessions and parents it takes, and all are killed at one
stroke, also those that start each other anew. No controller is turned on in it, so limits and
accounting stay as they are. Where there can be none, the agent does without.

A scope lies beside the agent in the hierarchy of cgroup v2, which on hybrid systems is mounted
elsewhere, and bears the run's mark as its name. The agent holds a lock on it while it lives: one
that can be locked is of an agent that was killed, and who makes the next one takes it away.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress

from zlaunch.system.marked import can_signal_exactly, kill_exactly

_PREFIX = "zlaunch-"
_LOOK_AGAIN = 0.005  # seconds


class Scope:
    """One that this process has made; `name` is that of no other living agent."""

    def __init__(self, path: str, lock: int, procs: int) -> None:
        self._path = path
        self._lock = lock
        self._procs = procs

    @classmethod
    def make(cls, name: str) -> Scope | None:
        """Make one; None where that is not possible or would change what counts."""
        above = own_group()
        if above is None:
            return None
        _tidy(above)
        try:
            # Only the root may have both processes and controllers below; a child would then
            # compete with its parent's processes.
            if _read(f"{above}/cgroup.subtree_control").strip():
                return None
            if not os.access(f"{above}/cgroup.procs", os.W_OK):
                return None
            path = _path(above, name)
            os.mkdir(path)
        except OSError:
            return None
        try:
            return cls(path, _locked(path), os.open(f"{path}/cgroup.procs", os.O_WRONLY))
        except OSError:
            with suppress(OSError):
                os.rmdir(path)
            return None

    def admit(self, pid: int) -> None:
        """Put a child of the agent's into it; 0 for the child that calls.

        The first one in a while takes the kernel 10 ms and more.
        """
        with suppress(OSError):  # the other nets hold it
            os.write(self._procs, b"%d" % pid)

    def empty(self, deadline: float, known: Collection[int] = ()) -> list[int]:
        """Kill all that is in it; return those that stay, save the `known`."""
        return _empty(self._path, deadline, known)

    def close(self) -> None:
        """Take it away, if it is empty."""
        os.close(self._procs)
        _remove(self._path)
        os.close(self._lock)


def end_scope(name: str, deadline: float) -> list[int]:
    """Empty the scope that an agent beside this process has left, and take it away."""
    above = own_group()
    if above is None or not os.path.isdir(_path(above, name)):
        return []
    left = _empty(_path(above, name), deadline, ())
    _remove(_path(above, name))
    return left


def own_group() -> str | None:
    """The directory of this process's group in the hierarchy of cgroup v2."""
    try:
        return find_group(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo"))
    except OSError:
        return None


def find_group(groups: str, mounts: str) -> str | None:
    """The same, from what the two files in /proc/self say."""
    own = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), None)
    if own is None or own.startswith("/.."):  # outside of what this namespace shows
        return None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if "cgroup2" in fields[fields.index("-") :][1:2]:
            root = "" if fields[3] == "/" else fields[3]
            if own == root or own.startswith(f"{root}/"):
                return f"{fields[4]}{own[len(root) :]}".rstrip("/")
    return None


def _path(above: str, name: str) -> str:
    return f"{above}/{_PREFIX}{name.replace('/', '_')}"


def _locked(path: str) -> int:
    """The descriptor that holds the lock; whoever tidies up may have been there before us."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.stat(path), os.fstat(lock)):
            raise FileNotFoundError(path)
    except OSError:
        os.close(lock)
        raise
    return lock


def _tidy(above: str) -> None:
    """End and take away what killed agents have left here."""
    with suppress(OSError):
        for name in os.listdir(above):
            if name.startswith(_PREFIX):
                with suppress(OSError):
                    lock = _locked(f"{above}/{name}")
                    try:
                        _empty(f"{above}/{name}", 0.0, ())
                        _remove(f"{above}/{name}")
                    finally:
                        os.close(lock)


def _empty(path: str, deadline: float, known: Collection[int]) -> list[int]:
    while not _is_empty(path):
        try:
            _write(f"{path}/cgroup.kill", b"1")
        except OSError:  # Linux before 5.14
            _kill_each(path)
        left = [pid for pid in _processes(path) if pid not in known]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_LOOK_AGAIN)
    return []


def _is_empty(path: str) -> bool:
    try:
        return "populated 0" in _read(f"{path}/cgroup.events")
    except OSError:
        return True


def _kill_each(path: str) -> None:
    def is_meant(pid: int) -> bool:
        return f"{path.rpartition('/')[2]}" in _read(f"/proc/{pid}/cgroup")

    if can_signal_exactly():
        for pid in _processes(path):
            kill_exactly(pid, is_meant)


def _processes(path: str) -> Iterator[int]:
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            yield from map(int, _read(f"{folder}/cgroup.procs").split())


def _remove(path: str) -> None:
    for folder, _, _ in os.walk(path, topdown=False):
        with suppress(OSError):
            os.rmdir(folder)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
