"""Where runs live on disk. This module alone knows the names of files.

$ZLAUNCH_HOME, else $XDG_STATE_HOME/zlaunch, else ~/.local/state/zlaunch   (mode 0700)
latest -> runs/<run id>
runs/<run id>/
run.json          the RunRecord; written beside and renamed
lock              held by the launcher while it lives; the kernel lets it go
events.jsonl      what happened, one object a line
ds_config.json
logs/rank-<N>.log exactly the bytes that rank N wrote
errors/           TORCHELASTIC_ERROR_FILE of each rank
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zlaunch.errors import InputError, ZlaunchError
from zlaunch.run.record import LOST, RUNNING, RunRecord

_DIRECTORY, _FILE = 0o700, 0o600
_ROOM, _ROOM_PER_RANK = 1024, 160  # bytes by which the last record may be longer


def home_directory(env: Mapping[str, str]) -> Path:
    """Return the directory that holds all runs of the user."""
    state = env.get("XDG_STATE_HOME", "")
    if not Path(state).is_absolute():  # the XDG specification has a relative one ignored
        state = "~/.local/state"
    try:
        return Path(env.get("ZLAUNCH_HOME") or f"{state}/zlaunch").expanduser().absolute()
    except (RuntimeError, OSError) as error:
        raise InputError(
            f"there is no directory to keep runs in: {error}", hint="set ZLAUNCH_HOME"
        ) from error


def new_run_id() -> str:
    """Return an id that sorts by time and does not repeat: `20261130-041507-3fa2b1c7`.

    Of the last eight digits six count within the second, in steps of 64 nanoseconds.
    """
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(seconds))
    return f"{moment}-{rest >> 6:06x}{os.urandom(1).hex()}"


class RunDir:
    """The directory of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def id(self) -> str:
        """The run id."""
        return self.path.name

    @property
    def ds_config(self) -> Path:
        """The ds_config.json that the workers read."""
        return self.path / "ds_config.json"

    @property
    def logs(self) -> Path:
        """The directory of the ranks' logs."""
        return self.path / "logs"

    @property
    def record_path(self) -> Path:
        """The run.json."""
        return self.path / "run.json"

    def log(self, rank: int) -> Path:
        """The file with everything that `rank` wrote."""
        return self.logs / f"rank-{rank}.log"

    # Writing

    def create(self) -> None:
        """Make the directory and take its lock.

        Raises InputError where the place cannot be written.
        """
        try:
            for path in (self.path.parent.parent, self.path.parent):
                _make_private(path)
            for path in (self.path, self.logs, self.path / "errors"):
                path.mkdir(mode=_DIRECTORY)
            self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _FILE)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            raise unwritable(self.path, error) from error

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
        if record.state == RUNNING:
            text += " " * (_ROOM + _ROOM_PER_RANK * record.world_size) + "\n"
        try:
            self.write_text(self.record_path, text)
        except InputError:
            if record.state == RUNNING or not self._overwrite_record(text):
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

    def open_log(self, rank: int) -> int:
        """Open the log of `rank` for appending and return its descriptor."""
        return self._append(self.log(rank))

    def open_events(self) -> int:
        """Open events.jsonl for appending and return its descriptor."""
        return self._append(self.path / "events.jsonl")

    def _append(self, path: Path) -> int:
        try:
            flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            return os.open(path, flags, _FILE)
        except OSError as error:
            raise unwritable(path, error) from error

    # Reading

    def read_record(self) -> RunRecord:
        """Read run.json; a run whose launcher has gone without a word has the state lost.

        Raises ZlaunchError where it cannot be read.
        """
        record = self._read()
        if record.state == RUNNING and not self.launcher_lives():
            again = self._read()  # it may have ended between the two looks
            return again if again.state != RUNNING else _lost(again)
        return record

    def _read(self) -> RunRecord:
        try:
            return RunRecord.from_json(json.loads(self.record_path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ZlaunchError(f"{self.record_path} cannot be read: {error}") from error

    def launcher_lives(self) -> bool:
        """Whether a launcher holds the lock of this run."""
        try:
            fd = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
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


def _lost(record: RunRecord) -> RunRecord:
    fields: dict[str, Any] = {**record.to_json(), "state": LOST}
    return RunRecord.from_json(fields)


def unwritable(path: Path, error: OSError) -> InputError:
    """Return the error for a run directory that cannot be written."""
    if error.errno == errno.EMFILE:
        hint = "each rank needs a file: raise `ulimit -n`"
    else:
        hint = "free space there, or set ZLAUNCH_HOME to a directory that can be written"
    where = error.filename or path
    return InputError(f"the run directory cannot be written: {where}: {error.strerror}", hint=hint)


def _name(run: RunDir) -> str | None:
    try:
        return run.read_record().name
    except ZlaunchError:  # a broken record must not hide the others
        return None


class RunStore:
    """All runs of a user."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._runs = home / "runs"

    def run(self, run_id: str) -> RunDir:
        """Return the directory of a run, which need not exist yet."""
        return RunDir(self._runs / run_id)

    def ids(self) -> list[str]:
        """The ids of all runs, oldest first."""
        try:
            return sorted(entry.name for entry in os.scandir(self._runs) if entry.is_dir())
        except OSError:
            return []

    def newest_first(self) -> Iterator[RunDir]:
        """All runs that have a record, newest first."""
        for run_id in reversed(self.ids()):
            run = self.run(run_id)
            if run.record_path.exists():
                yield run

    def set_latest(self, run: RunDir) -> None:
        """Point `latest` at `run`."""
        beside = self.home / f".latest-{run.id}"
        try:
            beside.symlink_to(Path("runs") / run.id)
            beside.replace(self.home / "latest")
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise unwritable(self.home, error) from error

    def find(self, reference: str | None) -> RunDir:
        """Return the run meant by an id, a name, a unique prefix of an id, or None: the latest.

        Raises InputError where there is none, or more than one.
        """
        if reference is None:
            return self._latest()
        ids = self.ids()
        if reference in ids:
            return self.run(reference)
        for run in self.newest_first():
            if _name(run) == reference:
                return run
        matching = [run_id for run_id in ids if run_id.startswith(reference)]
        if len(matching) == 1:
            return self.run(matching[0])
        if len(matching) > 1:
            raise InputError(
                f"'{reference}' begins the ids of {len(matching)} runs: {', '.join(matching[:5])}",
                hint="give more of the id",
            )
        raise InputError(
            f"there is no run '{reference}' in {self._runs}", hint="`zlaunch ps` lists the runs"
        )

    def _latest(self) -> RunDir:
        latest = self.home / "latest"
        if latest.is_symlink() and latest.exists():
            return self.run(latest.readlink().name)
        for run in self.newest_first():
            return run
        raise InputError(f"there is no run in {self._runs}", hint="`zlaunch run SCRIPT` makes one")
