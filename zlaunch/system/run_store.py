"""All runs of a user: where they lie, how a new one is called, which one is meant."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from zlaunch.errors import InputError, ZlaunchError
from zlaunch.system.rundir import RunDir, unwritable

_WAYS = "`zlaunch ps` lists the runs"
_LISTED = 10  # runs in an error message
_COMPARED = 300  # of the newest runs are looked through for what may have been meant


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


def _in_a_line(run: RunDir) -> str:
    try:
        record = run.read_record()
    except ZlaunchError:
        return run.id
    return f"{run.id}  {record.state}" + (f"  {record.name}" if record.name else "")


def _name(run: RunDir) -> str | None:
    try:
        return run.read_record().name
    except ZlaunchError:  # a broken record must not hide the others
        return None


def _by_task(run_id: str) -> tuple[int, str]:
    task = run_id.rpartition("_")[2]
    return (int(task) if task.isdigit() else 0), run_id


def _array_called(run: RunDir, name: str) -> str:
    """The array of that name that the run is a task of, or ""."""
    if "_" not in run.id:
        return ""
    try:
        told = run.read_as_written().submitted or {}
    except ZlaunchError:
        return ""
    return str(told.get("array") or "") if told.get("array_name") == name else ""


class RunStore:
    """All runs of a user."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._runs = home / "runs"

    def run(self, run_id: str) -> RunDir:
        """Return the directory of a run, which need not exist yet."""
        return RunDir(self._runs / run_id)

    def joined(self, name: str) -> RunDir:
        """Where a node that joins a run of another machine keeps what it says; no run of ours."""
        return RunDir(self.home / "joined" / name)

    def consoles(self) -> list[Path]:
        """What detached commands said that led to no run, and nodes that have joined others'."""
        return [*self._runs.glob(".console-*"), *(self.home / "joined").glob("*")]

    def ids(self) -> list[str]:
        """The ids of all runs, oldest first.

        Raises InputError where it cannot be told, as in another user's directory.
        """
        try:
            return sorted(entry.name for entry in os.scandir(self._runs) if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise InputError(f"{self._runs}: {error.strerror}") from error

    def newest_first(self) -> Iterator[RunDir]:
        """All runs that have a record, newest first."""
        for run_id in reversed(self.ids()):
            run = self.run(run_id)
            if run.has_record():
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

    def forget_latest(self) -> None:
        """Remove `latest` where it points to a run that is gone."""
        latest = self.home / "latest"
        if latest.is_symlink() and not latest.exists():
            latest.unlink(missing_ok=True)

    def find(self, reference: str | None) -> RunDir:
        """Return the run meant by an id, a name, a unique prefix of an id, or None: the latest.

        Raises InputError where there is none, or more than one.
        """
        if reference is None:
            return self._latest()
        if not reference.strip():  # a shell's variable that is not set, and no wish for any run
            raise InputError(f"RUN is empty ({reference!r})", hint=_WAYS)
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
            raise self._several(reference, matching)
        words = f"there is no run '{reference}' in {self._runs}"
        raise InputError(words, hint=self._alike(reference))

    def find_all(self, reference: str) -> list[RunDir]:
        """Return the run that is meant, or those of a whole array that was submitted.

        An array is called by what the ids of its runs begin with, or by its name. Raises
        InputError as `find` does.
        """
        ids = self.ids()
        tasks = [one for one in ids if one.startswith(f"{reference}_")]
        if tasks and reference not in ids:
            return [self.run(one) for one in sorted(tasks, key=_by_task)]
        try:
            return [self.find(reference)]
        except InputError:
            for run in self.newest_first():
                array = _array_called(run, reference)
                if array:
                    return self.find_all(array)
            raise

    def _several(self, beginning: str, ids: list[str]) -> InputError:
        newest = ids[::-1][:_LISTED]
        listed = "".join(f"\n  {_in_a_line(self.run(run_id))}" for run_id in newest)
        more = f"\n  and {len(ids) - _LISTED} older ones" if len(ids) > _LISTED else ""
        words = f"'{beginning}' begins the ids of {len(ids)} runs:{listed}{more}"
        return InputError(words, hint="give more of the id")

    def _alike(self, reference: str) -> str:
        """What may have been meant."""
        ids = self.ids()[-_COMPARED:]
        names = [name for run_id in ids if (name := _name(self.run(run_id)))]
        alike = difflib.get_close_matches(reference, dict.fromkeys([*names, *ids]), n=3, cutoff=0.6)
        meant = f"did you mean {' or '.join(alike)}? " if alike else ""
        return f"{meant}{_WAYS}"

    def _latest(self) -> RunDir:
        latest = self.home / "latest"
        if latest.is_symlink() and latest.exists():
            return self.run(latest.readlink().name)
        for run in self.newest_first():
            return run
        raise InputError(f"there is no run in {self._runs}", hint="`zlaunch run SCRIPT` makes one")
