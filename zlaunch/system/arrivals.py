"""When which bytes of which rank came: an index beside the logs, which hold bytes alone.

A record stands where bytes of a rank follow on those of another, or come a second or more after
the one before it: its time, the rank, the attempt, the offset at which they begin, and how many
bytes the record before it was about. It is written before the bytes are, so all of them belong to
some record, also where the launcher was killed: the last record is about whatever follows.

Records have 20 bytes. When the file has 32 MiB it becomes `arrivals.old`, in place of one that may
be there: of what came before those nothing is known but its bytes.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Collection, Iterator

from zlaunch.errors import InputError
from zlaunch.system.rank_log import GrowingFile
from zlaunch.system.rundir import RunDir

_MOST = 32 << 20  # bytes of a file
_MAGIC = b"zlaunch arrivals"
_HEADER = struct.Struct("<16sdII")  # begin in seconds since the epoch, number of the file, 0
_RECORD = struct.Struct("<IHHQI")  # time in 1/100 s since then, rank, attempt, offset, bytes before
_TICKS = 100.0  # a second
_EVERY = 1.0  # seconds
_MOST_RANKS = 1 << 16
_BLOCK = _RECORD.size * 4096

Arrival = tuple[float, int, int, int, int]
"""Seconds since the epoch, rank, attempt, offset, and bytes that the one before was about."""


class Arrivals:
    """Writes the index, a record at a time; the launcher of a run has one."""

    def __init__(self, run: RunDir, most: int = _MOST) -> None:
        """Begin it, with `most` bytes a file.

        Raises InputError where that is not possible.
        """
        self._run = run
        self._most = most
        self._number = 0
        self._last: tuple[int, int] | None = None  # rank and attempt
        self._last_begin = 0
        self._last_end = 0
        self._last_at = 0.0
        self._begin_file(time.time())

    def _begin_file(self, now: float) -> None:
        self._file = GrowingFile(self._run.open_to_append(self._run.arrivals))
        self._begun, self._size = now, _HEADER.size
        self._file.append(_HEADER.pack(_MAGIC, now, self._number, 0))

    def note(self, rank: int, attempt: int, offset: int, size: int) -> str | None:
        """Say that `size` bytes from `offset` on are about to be written.

        Returns the system's word the first time that it cannot be written down.
        """
        now = max(self._last_at, time.time())  # a clock that is set back must not unsort it
        trouble = None
        if self._last != (rank, attempt) or now - self._last_at >= _EVERY:
            trouble = self._write(now, rank, attempt, offset)
        self._last_end = offset + size
        return trouble

    def _write(self, now: float, rank: int, attempt: int, offset: int) -> str | None:
        if rank >= _MOST_RANKS:
            return None
        if self._size + _RECORD.size > self._most:
            self._turn_over(now)
        ticks = min(int((now - self._begun) * _TICKS), (1 << 32) - 1)
        before = min(self._last_end - self._last_begin, (1 << 32) - 1)
        trouble = self._file.append(_RECORD.pack(ticks, rank, attempt, offset, before))
        self._size += _RECORD.size
        self._last, self._last_begin, self._last_at = (rank, attempt), offset, now
        return trouble

    def _turn_over(self, now: float) -> None:
        """Put the file that is full aside; where that cannot be, it grows on."""
        full = self._file
        try:
            self._run.arrivals.rename(old_arrivals(self._run))
            self._number += 1
            self._begin_file(now)
        except (OSError, InputError):
            self._most *= 2
        else:
            full.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def old_arrivals(run: RunDir) -> str:
    """The file before the newest."""
    return f"{run.arrivals}.old"


class ArrivalReader:
    """Reads the records of a run, also while they are written."""

    def __init__(self, run: RunDir) -> None:
        """Raises FileNotFoundError where the run has none."""
        self._run = run
        self._fd = -1
        self._at = 0
        self._begun = 0.0
        self._number = -1
        self.known_from = 0.0  # seconds since the epoch; 0: from the beginning of the run
        if not self._open(old_arrivals(run)) and not self._open(str(run.arrivals)):
            raise FileNotFoundError(run.arrivals)
        if self._number:
            self.known_from = self._begun

    def _open(self, path: str) -> bool:
        """Open the file, if it is a later one than that which is open."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        header = os.pread(fd, _HEADER.size, 0)
        magic, begun, number, _ = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
        if magic != _MAGIC or number <= self._number:
            os.close(fd)
            return False
        self.close()
        self._fd, self._begun, self._number, self._at = fd, begun, number, _HEADER.size
        return True

    def read(self) -> Iterator[Arrival]:
        """The records that have come since the last time."""
        while True:
            block = self._whole_records()
            if not block:
                # Another one that has taken its place: nothing more comes to this one.
                if not self._has_successor():
                    return
                block = self._whole_records()
                if not block and not self._go_on():
                    return
            for ticks, rank, attempt, offset, before in _RECORD.iter_unpack(block):
                self._at += _RECORD.size  # who stops here goes on here
                yield self._begun + ticks / _TICKS, rank, attempt, offset, before

    def _whole_records(self) -> bytes:
        block = os.pread(self._fd, _BLOCK, self._at)
        return block[: len(block) - len(block) % _RECORD.size]

    def _has_successor(self) -> bool:
        try:
            newest = os.stat(self._run.arrivals)  # noqa: PTH116  # asked at each look
        except OSError:
            return False
        return newest.st_ino != os.fstat(self._fd).st_ino

    def _go_on(self) -> bool:
        return self._open(old_arrivals(self._run)) or self._open(str(self._run.arrivals))

    def seek(self, moment: float) -> None:
        """Go on with the first record from `moment` on, in seconds since the epoch."""
        while True:
            low, high = 0, (os.fstat(self._fd).st_size - _HEADER.size) // _RECORD.size
            while low < high:
                middle = (low + high) // 2
                data = os.pread(self._fd, 4, _HEADER.size + middle * _RECORD.size)
                if self._begun + int.from_bytes(data, "little") / _TICKS < moment:
                    low = middle + 1
                else:
                    high = middle
            self._at = _HEADER.size + low * _RECORD.size
            found = os.pread(self._fd, _RECORD.size, self._at)
            if found or not self._has_successor() or not self._go_on():
                return

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def offsets_since(run: RunDir, moment: float, ranks: Collection[int]) -> dict[int, tuple[int, int]]:
    """Attempt and offset from which on each of `ranks` wrote since `moment`, to the second.

    A rank that has written nothing since is left out. Raises FileNotFoundError where the run has
    no index.
    """
    reader = ArrivalReader(run)
    try:
        reader.seek(moment - _EVERY)
        found: dict[int, tuple[int, int]] = {}
        for _, rank, attempt, offset, _ in reader.read():
            if rank in ranks and rank not in found:
                found[rank] = attempt, offset
                if len(found) == len(ranks):
                    break
        return found
    finally:
        reader.close()


def known_from(run: RunDir) -> float:
    """Since when it is known what came when, in seconds since the epoch; 0: since the start."""
    reader = ArrivalReader(run)
    reader.close()
    return reader.known_from
