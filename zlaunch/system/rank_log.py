"""A rank's log of one attempt: one file, or with --log-max several of which the newest are kept.

What the rank wrote is one stream of bytes, and an offset counts from its first byte, whichever
file that is in by now. The newest file is always `rank-N.log`. When it is full it becomes
`rank-N.log.old/<offset of its first byte>`; a file has a quarter of --log-max, and the oldest is
removed before there are more bytes than that. So at least half of --log-max is always there.
The console.log of a detached run is kept in the same way (`console_log.py`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from zlaunch.errors import InputError
from zlaunch.system.rundir import RunDir

_FILES = 4
_DIGITS = 15  # of an offset, so that the names sort


class GrowingFile:
    """A file that only grows; a disk that fills up does not end the training."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def append(self, data: bytes) -> str | None:
        """Write all of `data`; return the system's word the first time that it fails."""
        if self._fd is None:
            return None
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.close()
            return error.strerror
        return None

    def close(self) -> None:
        """Close the file; what is appended afterwards is left out."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class SizedLog:
    """Writes a log; `size` is the number of bytes so far."""

    def __init__(
        self,
        path: Path,
        older: Path,
        begin: Callable[[], GrowingFile],
        most: int | None = None,
    ) -> None:
        """Begin it at `path`, `most` bytes of which are to be kept; None: all.

        `begin` opens the file there, and each that follows it; those before it go into `older`.
        Raises InputError where that is not possible.
        """
        self._path, self._older, self._open = path, older, begin
        self._most = most
        self._file = begin()
        self._begin = 0  # offset of the newest file
        self._old: list[tuple[int, int]] = []  # begin and size of those before it
        self._between_lines = False
        self.size = 0

    def append(self, data: bytes) -> str | None:
        """Write all of `data`; return the system's word the first time that it fails."""
        trouble: str | None = None
        while self._most is not None and data:
            fitting = self._fitting(data, max(1, self._most // _FILES))
            if fitting:
                trouble = trouble or self._write(data[:fitting])
                data = data[fitting:]
            else:
                trouble = trouble or self._begin_file()
        return trouble or (self._write(data) if data else None)

    def _fitting(self, data: bytes, room: int) -> int:
        """How many bytes of `data` go into the newest file; the next begins with a line."""
        used = self.size - self._begin
        free = max(0, room - used)
        if self._between_lines and free < room // 8:
            return 0  # little is lost by that, and the file that follows begins with a line
        if len(data) <= free:
            return len(data)
        whole_lines = data.rfind(b"\n", 0, free) + 1
        return whole_lines or (0 if used else free)

    def _write(self, data: bytes) -> str | None:
        self.size += len(data)
        self._between_lines = data.endswith(b"\n")
        return self._file.append(data)

    def _begin_file(self) -> str | None:
        """Put the file that is full aside and begin another; remove what is too much."""
        older = self._older
        size = self.size - self._begin
        try:
            older.mkdir(mode=0o700, exist_ok=True)
            self._path.rename(older / _name(self._begin))
            file = self._open()
        except (OSError, InputError) as error:
            self._most = None
            return f"{older}: {error.strerror if isinstance(error, OSError) else error}"
        self._file.close()
        self._file = file
        self._old.append((self._begin, size))
        self._begin, self._between_lines = self.size, False
        assert self._most is not None
        while sum(size for _, size in self._old) > self._most - self._most // _FILES:
            begin, _ = self._old.pop(0)
            with suppress(OSError):
                (older / _name(begin)).unlink()
        return None

    def close(self) -> None:
        """Close the file; what is appended afterwards is left out."""
        self._file.close()


class RankLog(SizedLog):
    """What a rank writes in an attempt."""

    def __init__(self, run: RunDir, rank: int, attempt: int, most: int | None = None) -> None:
        """As in `SizedLog`."""
        begin = partial(_begin_rank_log, run, rank, attempt)
        super().__init__(run.log(rank, attempt), run.older_logs(rank, attempt), begin, most)


def _begin_rank_log(run: RunDir, rank: int, attempt: int) -> GrowingFile:
    return GrowingFile(run.open_log(rank, attempt))


def _name(begin: int) -> str:
    return f"{begin:0{_DIGITS}}"


class LogReader:
    """Reads a log, also while it is written.

    `offset` is what is read next; `lost` counts bytes that had been removed when they were asked
    for, over which reading has gone on.
    """

    def __init__(self, live: Path, older: Path, offset: int = 0) -> None:
        self._live = live
        self._older = older
        self._path = str(self._live)
        self._fd: int | None = None
        self._begin = 0  # offset of the file that is open
        self._inode = 0
        self.offset = offset
        self.lost = 0

    def read(self, most: int) -> bytes:
        """Return up to `most` bytes; none at the end of what is there by now."""
        while self._fd is not None or self._open():
            data = self._pread(most)
            # Only after that one is looked at again: it may have got its last bytes in between.
            if not data and self._is_full():
                data = self._pread(most)
                if not data:
                    self.close()
                    continue
            self.offset += len(data)
            return data
        return b""

    def read_until(self, end: int) -> bytes:
        """Return all bytes before the offset `end`, and close; fewer where some are gone."""
        pieces = []
        try:
            while self.offset < end and (data := self.read(end - self.offset)):
                pieces.append(data)
        finally:
            self.close()
        return b"".join(pieces)

    def size(self) -> int:
        """The offset behind the last byte that is there by now."""
        return bounds(log_files(self._live, self._older))[1]

    def _pread(self, most: int) -> bytes:
        assert self._fd is not None
        return os.pread(self._fd, most, self.offset - self._begin)

    def _is_full(self) -> bool:
        """Whether another file has taken the place of the one that is open."""
        try:
            return os.stat(self._path).st_ino != self._inode  # noqa: PTH116  # asked at each look
        except OSError:
            return self._older.is_dir()

    def _open(self) -> bool:
        """Open the file that the offset is in; False where there is none yet."""
        for file in log_files(self._live, self._older):
            if self.offset < file.begin:
                self.lost += file.begin - self.offset
                self.offset = file.begin
            if self.offset < file.begin + file.size or file.newest:
                try:
                    self._fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:  # removed or put aside meanwhile
                    return self._open()
                except OSError:
                    return False
                if os.fstat(self._fd).st_ino != file.inode:
                    self.close()
                    return self._open()
                self._begin, self._inode = file.begin, file.inode
                return True
        return False

    def close(self) -> None:
        """Close what is open."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class RankLogReader(LogReader):
    """Reads what a rank wrote in one attempt."""

    def __init__(self, run: RunDir, rank: int, attempt: int, offset: int = 0) -> None:
        super().__init__(run.log(rank, attempt), run.older_logs(rank, attempt), offset)


class LogFile:
    """One file of a log: from which offset on, and how many bytes it has by now."""

    def __init__(self, path: Path, begin: int, found: os.stat_result, *, newest: bool) -> None:
        self.path = path
        self.begin = begin
        self.size = found.st_size
        self.inode = found.st_ino
        self.newest = newest


def log_files(live: Path, older: Path) -> list[LogFile]:
    """The files of a log, in the order in which they were written."""
    # The newest first: where it is put aside meanwhile, it is found there as well.
    newest = _stat(live)
    found = [
        LogFile(path, int(path.name), at, newest=False)
        for path in (sorted(older.iterdir()) if older.is_dir() else ())
        if path.name.isdigit() and (at := _stat(path)) is not None
    ]
    if newest is not None and newest.st_ino not in {file.inode for file in found}:
        begin = found[-1].begin + found[-1].size if found else 0
        found.append(LogFile(live, begin, newest, newest=True))
    return found


def bounds(files: list[LogFile]) -> tuple[int, int]:
    """The offsets of the first byte that is still there, and behind the last one."""
    return (files[0].begin, files[-1].begin + files[-1].size) if files else (0, 0)


def files_of(run: RunDir, rank: int, attempt: int) -> list[LogFile]:
    """The files of a rank's log in an attempt, in the order in which they were written."""
    return log_files(run.log(rank, attempt), run.older_logs(rank, attempt))


def _stat(path: Path) -> os.stat_result | None:
    """Of a plain file: a pipe would be waited for."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None
