"""Follows the logs of a run as they grow, and ends when the run has ended."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from zlaunch.errors import ZlaunchError
from zlaunch.run.record import GATHERING, QUEUED
from zlaunch.system.changes import Changes, can_watch
from zlaunch.system.console_log import ConsoleReader
from zlaunch.system.interruptible import interruptible
from zlaunch.system.launcher_end import LauncherEnd
from zlaunch.system.loop import READ, Loop
from zlaunch.system.rank_log import RankLogReader
from zlaunch.system.rundir import RunDir

_CHUNK = 256 << 10  # bytes; larger ones take longer than the processor's cache can help
_MOMENT = 0.1  # seconds
_LOOK_EVERY = 0.5  # seconds, only where the system does not tell of changes

Take = Callable[[int, bytes], None]
Lose = Callable[[int, int], None]


class Follower:
    """Reads each rank's log from an offset on; `take(rank, data)` gets what is new.

    The logs of further attempts follow on that. `lose(rank, size)` is told of bytes that had been
    removed before they could be read (--log-max).
    """

    def __init__(
        self,
        run: RunDir,
        offsets: Mapping[int, int],
        take: Take,
        attempts: Mapping[int, int] | None = None,
        lose: Lose = lambda _rank, _size: None,
    ) -> None:
        """`offsets` maps each rank to where reading begins, in bytes; `attempts` to in which."""
        self.run = run
        self._take = take
        self._lose = lose
        self._attempts = {rank: (attempts or {}).get(rank, 0) for rank in offsets}
        self._readers = {
            rank: RankLogReader(run, rank, self._attempts[rank], offset)
            for rank, offset in offsets.items()
        }
        self._next = {rank: self._after(rank) for rank in offsets}
        self._last = dict.fromkeys(offsets, b"\n")  # what was read last

    def _after(self, rank: int) -> str:
        """The log of the next attempt, which need not be there."""
        return str(self.run.log(rank, self._attempts[rank] + 1))

    def read_new(self) -> None:
        """Take all that has been written since the last look."""
        for rank in self._readers:
            self.read_rank(rank)

    def read_rank(self, rank: int) -> None:
        """Take all that a rank has written since the last look, in all attempts."""
        further = True
        while further:
            # Looked for before reading: then nothing more is written to the one before.
            further = os.path.exists(self._next[rank])  # noqa: PTH110  # at each look
            self.read_up_to(rank, None)
            if further:
                self.go_on(rank)

    def read_up_to(self, rank: int, end: int | None) -> None:
        """Take what there is of the rank's attempt, before the offset `end` where one is given."""
        reader = self._readers[rank]
        while end is None or reader.offset < end:
            most = _CHUNK if end is None else min(_CHUNK, end - reader.offset)
            data = reader.read(most)
            if reader.lost:
                self._lose(rank, reader.lost)
                reader.lost = 0
            if not data:
                return
            self._last[rank] = data[-1:]
            self._take(rank, data)

    def go_on(self, rank: int) -> None:
        """Read the next attempt from now on; a last line without an end is given one."""
        self._readers[rank].close()
        if self._last[rank] != b"\n":
            self._take(rank, b"\n")
        self._last[rank] = b"\n"
        self._attempts[rank] += 1
        self._next[rank] = self._after(rank)
        self._readers[rank] = RankLogReader(self.run, rank, self._attempts[rank])

    def attempt(self, rank: int) -> int:
        """The attempt of which the rank's log is read."""
        return self._attempts[rank]

    def end_of(self, rank: int) -> int:
        """The offset behind what there is by now of the rank's attempt."""
        return self._readers[rank].size()

    def follow(self, and_then: Callable[[], None] = lambda: None) -> None:
        """Take what comes until the run has ended, finished or lost; `and_then` after each look."""
        ended = Ended(self.run)

        def look() -> bool:
            # Looked at before reading: what an ended run wrote is then all there.
            over = ended()
            self.look(over=over)
            and_then()
            return over

        look_until(self.run, [self.run.path, self.run.logs], look)

    def look(self, *, over: bool) -> None:  # noqa: ARG002  # who merges needs it
        """Take what is new; the run is `over`, so that no more comes."""
        self.read_new()

    def close(self) -> None:
        """Close all files."""
        for reader in self._readers.values():
            reader.close()


class Ended:
    """Says whether a run has ended; reads its record only where that may have changed."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._path = str(run.record_path)
        self._seen: tuple[int, int] | None = None

    def __call__(self) -> bool:
        """Whether it has."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  # at each look
        except OSError:
            return self._run.read_record().is_over
        if self._seen == (found.st_ino, found.st_mtime_ns) and self._run.launcher_lives():
            return False
        self._seen = found.st_ino, found.st_mtime_ns
        return self._run.read_record().is_over


class ConsoleFollower:
    """Reads the console.log of a run from `offset` on, in bytes; `take` gets what is new.

    `lose` is told of bytes that had been removed before they could be read (--log-max).
    """

    def __init__(
        self,
        run: RunDir,
        offset: int,
        take: Callable[[bytes], None],
        lose: Callable[[int], None] = lambda _size: None,
    ) -> None:
        self._run = run
        self._take = take
        self._lose = lose
        self._reader = ConsoleReader(run, offset)

    def follow(self) -> None:
        """Take what comes until the launcher has ended: its last word comes after its record."""
        look_until(self._run, [self._run.path], self._look)

    def _look(self) -> bool:
        ended = not self._run.launcher_lives()
        if ended:  # a submitted run may have another launcher yet
            with suppress(ZlaunchError):
                ended = self._run.read_record().is_over
        while data := self._reader.read(_CHUNK):
            if self._reader.lost:
                self._lose(self._reader.lost)
                self._reader.lost = 0
            self._take(data)
        return ended

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


def wait_until_planned(run: RunDir) -> bool:
    """Wait until it is known what ranks the run has, or until it is over.

    Returns whether it was queued: then nothing of the run was there before.
    """
    record = run.read_record()
    if record.state == QUEUED or record.gathering is not None:
        unplanned = {GATHERING, QUEUED}
        look_until(run, [run.path], lambda: run.read_record().shown_state not in unplanned)
    return record.state == QUEUED


def look_until(run: RunDir, directories: Iterable[Path], look: Callable[[], bool]) -> None:
    """Call `look` at each change in the directories, until it says that this was all."""
    looking = _Looking(run, directories, look)
    try:
        looking.run()
    finally:
        looking.close()


class _Looking:
    """What `look_until` waits for: changes, the launcher's end, or a clock without either."""

    def __init__(self, run: RunDir, directories: Iterable[Path], look: Callable[[], bool]) -> None:
        self._run, self._look = run, look
        self._loop, self._end = Loop(), LauncherEnd(run)
        self._changes = _watch(directories)

    def run(self) -> None:
        """Look, and wait for the next time, until there is none."""
        self._loop.watch(self._end.fd, READ, self._launcher_gone)
        with interruptible(self._loop):
            self._listen()
            if self._changes is None or _is_elsewhere(self._run):
                self._tick()
            else:
                self._step()
            self._loop.run()

    def _step(self) -> None:
        if self._changes is not None:
            self._changes.clear()
        if self._look():
            self._loop.stop()

    def _listen(self) -> None:
        if self._changes is not None:
            self._loop.watch(self._changes.fd, READ, self._change)

    def _change(self) -> None:
        """Look at once, and then not again for a moment: a flood is taken in gulps."""
        self._step()
        if self._changes is not None:
            self._loop.unwatch(self._changes.fd, READ)
            self._loop.after(_MOMENT, self._listen)

    def _launcher_gone(self) -> None:  # one that is killed writes no word of its end
        self._loop.unwatch(self._end.fd, READ)
        self._step()

    def _tick(self) -> None:
        self._step()
        self._loop.after(_LOOK_EVERY, self._tick)

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._changes is not None:
            self._changes.close()
        self._end.close()
        self._loop.close()


def _is_elsewhere(run: RunDir) -> bool:
    """Whether another machine writes the files: of what it does, this one's system is not told.

    Nor of what Slurm does with a run that was submitted.
    """
    record = run.read_record()
    return bool(record.job) or record.host not in {"", socket.gethostname()}


def _watch(directories: Iterable[Path]) -> Changes | None:
    try:
        return Changes(list(directories)) if can_watch() else None
    except OSError:
        return None
