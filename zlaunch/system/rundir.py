"""The directory of a run: made and written by its launcher, read by anybody."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from zlaunch.errors import InputError, ZlaunchError
from zlaunch.run.record import LOST, RUNNING, RunRecord, is_event
from zlaunch.system.run_paths import RunPaths

_DIRECTORY, _FILE = 0o700, 0o600
_FIRST_WORDS = 4096  # bytes
_ROOM, _ROOM_PER_RANK = 1024, 240  # bytes by which the last record may be longer


class RunDir(RunPaths):
    """The directory of one run."""

    def __init__(self, path: Path) -> None:
        """`adopted` is the record of a run that was submitted, as its launcher takes it up."""
        super().__init__(path)
        self._lock: int | None = None
        self.adopted: RunRecord | None = None

    # Writing

    @property
    def created(self) -> bool:
        """Whether this process has made the directory, and holds its lock."""
        return self._lock is not None

    def create(self) -> None:
        """Make the directory and take its lock.

        Raises InputError where the place cannot be written.
        """
        try:
            for path in (self.path.parent.parent, self.path.parent):
                _make_private(path)
            self.path.mkdir(mode=_DIRECTORY)
            self._lock = os.open(self.lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _FILE)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            for path in (self.logs, self.path / "errors", self.path / "flight"):
                path.mkdir(mode=_DIRECTORY)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def release(self) -> None:
        """Let another process be the launcher of what was made here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def adopt(self, lock: int, record: RunRecord) -> None:
        """Be the launcher of a run that another process made; `lock` is the descriptor, locked."""
        self._lock, self.adopted = lock, record

    def begin_console(self) -> int:
        """Make the file for console.log, and return its descriptor, which appends.

        Raises InputError where the place cannot be written.
        """
        try:
            for path in (self.path.parent.parent, self.path.parent):
                _make_private(path)
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
            console = os.open(self.early_console, flags, _FILE)
            fcntl.flock(console, fcntl.LOCK_EX)  # while anybody still writes to it
            self._need_room(console)
        except OSError as error:
            raise unwritable(self.path, error) from error
        return console

    def _need_room(self, console: int) -> None:
        """On a full disk no word would arrive, not even why the run does not start."""
        try:
            os.write(console, b"\n" * _FIRST_WORDS)
            os.truncate(console, 0)
        except OSError:
            self.drop_console()
            os.close(console)
            raise

    def discard(self) -> None:
        """Remove the directory again: nothing came of the run."""
        shutil.rmtree(self.path, ignore_errors=True)

    def adopt_console(self) -> None:
        """Take that file into the run directory."""
        self.early_console.rename(self.console)

    def name_console(self, name: str) -> None:
        """Give that file a name, where there is to be no run directory."""
        self.early_console.rename(self.path.with_name(name))

    def drop_console(self) -> None:
        """Remove that file, where there never was a run directory for it."""
        self.early_console.unlink(missing_ok=True)

    def write_text(self, path: Path, text: str) -> None:
        """Write a file of the run: beside it, then renamed, so that no reader sees half.

        Raises InputError where the disk is full or refuses.
        """
        beside = path.with_name(path.name + ".new")
        try:
            fd = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, _FILE)
            with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise unwritable(path, error) from error

    def write_record(self, record: RunRecord) -> None:
        """Write run.json.

        The first one is padded, so that a disk that fills up still has room for the last.
        """
        text = json.dumps(record.to_json(), indent=1) + "\n"
        if not record.is_over:
            text += " " * (_ROOM + _ROOM_PER_RANK * record.world_size) + "\n"
        try:
            self.write_text(self.record_path, text)
        except InputError:
            if not record.is_over or not self._overwrite_record(text):
                raise

    def _overwrite_record(self, text: str) -> bool:
        """Put the last record over the first, in the place that this has; say whether it fits."""
        data = text.encode()
        try:
            with self.record_path.open("r+b") as file:
                if len(data) > os.fstat(file.fileno()).st_size:
                    return False
                file.write(data)
                file.truncate()
        except OSError:
            return False
        return True

    def open_log(self, rank: int, attempt: int = 0) -> int:
        """Open the log of `rank` for appending and return its descriptor."""
        return self.open_to_append(self.log(rank, attempt))

    def open_metrics(self) -> int:
        """Open metrics.jsonl for appending and return its descriptor."""
        return self.open_to_append(self.metrics)

    def open_events(self) -> int:
        """Open events.jsonl for appending and return its descriptor."""
        return self.open_to_append(self.events)

    def open_to_append(self, path: Path) -> int:
        """Open a file of the run that only grows.

        Raises InputError where that is not possible.
        """
        try:
            flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            return os.open(path, flags, _FILE)
        except OSError as error:
            raise unwritable(path, error) from error

    def wait_for(self, why: str) -> None:
        """Note down why the run waits for GPUs, "" for no longer; a full disk does not end it."""
        if why:
            with suppress(InputError):
                self.write_text(self.waiting, why)
        else:
            with suppress(OSError):
                self.waiting.unlink()

    def waits_for(self) -> str:
        """Why the run waits for GPUs; "" where it does not, or is over."""
        try:
            return self.waiting.read_text("utf-8") if self.launcher_lives() else ""
        except OSError:
            return ""

    # Reading

    def read_record(self) -> RunRecord:
        """Read run.json; a run whose launcher has gone without a word has the state lost.

        Raises ZlaunchError where it cannot be read, InputError where the whole run is gone.
        """
        record = self._read()
        if not record.is_over and not self.launcher_lives():
            again = self._read()  # it may have ended between the two looks
            if again.job and not again.is_over:
                from zlaunch.system.submission import by_slurm  # few runs are

                return by_slurm(self, again)
            return again if again.state != RUNNING else _lost(again)
        return record

    def read_as_written(self) -> RunRecord:
        """Read run.json, whether its launcher lives or not; raises as `read_record` does."""
        return self._read()

    def _read(self) -> RunRecord:
        try:
            return RunRecord.from_json(json.loads(_read_file(self.record_path)))
        except FileNotFoundError as error:
            words = f"run {self.id} is gone: it could not be begun, or was removed"
            raise InputError(words) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ZlaunchError(f"{self.record_path} cannot be read: {error}") from error

    def read_events(self) -> list[dict[str, Any]]:
        """Return the events that were written down so far, in their order."""
        try:
            lines = self.events.read_bytes().split(b"\n")
        except OSError:
            return []
        events = []
        for line in lines[:-1]:  # the last one is empty, or not whole yet
            with suppress(ValueError):
                events.append(json.loads(line))
        return list(filter(is_event, events))

    def has_record(self) -> bool:
        """Whether it is a run at all: its launcher writes a record once nothing can fail.

        So is one into which nobody lets us look: reading it says so.
        """
        try:
            os.stat(f"{self.path}/run.json")  # noqa: PTH116  # asked of thousands
        except PermissionError:
            return True
        except OSError:
            return False
        return True

    def launcher_lives(self) -> bool:
        """Whether a launcher holds the lock of this run."""
        try:
            fd = os.open(f"{self.path}/lock", os.O_RDONLY | os.O_CLOEXEC)  # of thousands of runs
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False


def _make_private(path: Path) -> None:
    """Make a directory of ours; one that is there keeps its mode, it may serve others too."""
    if path.is_dir():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=_DIRECTORY, exist_ok=True)
    except FileExistsError as error:
        code = errno.ENOTDIR
        raise NotADirectoryError(code, os.strerror(code), error.filename) from error


def _read_file(path: Path) -> str:
    """Read a file, and nothing where it is a pipe that nobody writes to."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        return (file.read() or b"").decode("utf-8")


def _lost(record: RunRecord) -> RunRecord:
    return replace(record, state=LOST)


def unwritable(path: Path, error: OSError) -> InputError:
    """Return the error for a run directory that cannot be written."""
    if error.errno == errno.EMFILE:
        hint = "each rank needs a file: raise `ulimit -n`"
    else:
        hint = "free space there, or set ZLAUNCH_HOME to a directory that can be written"
    where = error.filename or path
    return InputError(f"the run directory cannot be written: {where}: {error.strerror}", hint=hint)
