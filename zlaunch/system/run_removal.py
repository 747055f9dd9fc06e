"""Takes runs that are over off the disk: what is in the runs directory, and nothing beyond."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from zlaunch.errors import InputError, ZlaunchError
from zlaunch.system.rundir import RunDir


def refuse_if_alive(run: RunDir) -> None:
    """Raise InputError where the run's launcher lives."""
    if not run.launcher_lives():
        if is_with_slurm(run):
            words = f"run {run.id} is queued, or runs on another machine"
            raise InputError(words, hint=f"zlaunch stop {run.id}")
        return
    ended = None
    with suppress(ZlaunchError):
        ended = run.read_record().ended
    if ended is None:
        raise InputError(f"run {run.id} is running", hint=f"zlaunch stop {run.id}")
    raise InputError(
        f"run {run.id} is over, but its --on-exit command still runs",
        hint=f"zlaunch wait {run.id}, or zlaunch stop --now {run.id}, which ends it",
    )


def is_with_slurm(run: RunDir) -> bool:
    """Whether the run was submitted, and its job waits or runs, perhaps on another machine."""
    with suppress(ZlaunchError):
        record = run.read_record()
        return bool(record.job) and not record.is_over
    return False


def remove(run: RunDir) -> None:
    """Remove the directory of a run that is over; of one that is a link, the link.

    No link in it is followed. Raises InputError where the run is alive, or something of it
    cannot be removed.
    """
    refuse_if_alive(run)  # once over, no run comes to life again
    try:
        if run.path.is_symlink():
            run.path.unlink()
        else:
            shutil.rmtree(run.path)
    except FileNotFoundError:  # somebody else removes it as well
        return
    except OSError as error:
        where = error.filename or run.path
        raise InputError(f"run {run.id} cannot be removed: {where}: {error.strerror}") from error


def remove_old_file(path: Path, before: float) -> None:
    """Remove a file that was last written to `before`, unless somebody has it locked."""
    with suppress(OSError):
        if path.lstat().st_mtime >= before:
            return
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(fd)


def size(run: RunDir) -> int:
    """Bytes on the disk that its removal gives back, as far as they can be counted."""
    total, waiting = 0, [] if run.path.is_symlink() else [run.path]
    while waiting:
        try:
            for entry in os.scandir(waiting.pop()):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total
