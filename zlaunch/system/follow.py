"""Follows the logs of a run as they grow, and ends when the run has ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from zlaunch.run.record import RUNNING
from zlaunch.system.changes import Changes, can_watch
from zlaunch.system.loop import READ, Loop
from zlaunch.system.rundir import RunDir

_CHUNK = 1 << 20  # bytes
_LOOK_EVERY = 0.5  # seconds, only where the system does not tell of changes

Take = Callable[[int, bytes], None]


class Follower:
    """Reads each rank's log from an offset on; `take(rank, data)` gets what is new."""

    def __init__(self, run: RunDir, offsets: dict[int, int], take: Take) -> None:
        """`offsets` maps each rank to where reading begins, in bytes."""
        self._run = run
        self._take = take
        self._offsets = offsets
        self._files: dict[int, int] = {}
        self._loop = Loop()

    def read_new(self) -> None:
        """Take all that has been written since the last look."""
        for rank in self._offsets:
            fd = self._file(rank)
            while fd is not None and (data := os.pread(fd, _CHUNK, self._offsets[rank])):
                self._offsets[rank] += len(data)
                self._take(rank, data)

    def _file(self, rank: int) -> int | None:
        if rank not in self._files:
            try:
                self._files[rank] = os.open(self._run.log(rank), os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return None
        return self._files[rank]

    def follow(self) -> None:
        """Take what comes until the run has ended, finished or lost."""
        changes = _watch([self._run.path, self._run.logs])
        launcher = _pidfd(self._run)
        self._step(changes)
        if changes is not None:
            self._loop.watch(changes.fd, READ, lambda: self._step(changes))
        if launcher is not None:  # one that is killed writes no word of its end
            self._loop.watch(launcher, READ, lambda: self._step(changes))
        if changes is None or launcher is None:
            self._tick()
        self._loop.run()
        if changes is not None:
            changes.close()
        if launcher is not None:
            os.close(launcher)

    def _tick(self) -> None:
        self._step(None)
        self._loop.after(_LOOK_EVERY, self._tick)

    def _step(self, changes: Changes | None) -> None:
        if changes is not None:
            changes.clear()
        # Looked at before reading: what an ended run wrote is then all there.
        ended = self._run.read_record().state != RUNNING
        self.read_new()
        if ended:
            self._loop.stop()

    def close(self) -> None:
        """Close all files."""
        for fd in self._files.values():
            os.close(fd)
        self._loop.close()


def _watch(directories: Iterable[Path]) -> Changes | None:
    try:
        return Changes(list(directories)) if can_watch() else None
    except OSError:
        return None


def _pidfd(run: RunDir) -> int | None:
    """A descriptor that becomes readable when the launcher has ended."""
    record = run.read_record()
    if record.state != RUNNING or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(record.launcher_pid)
    except OSError:
        return None
