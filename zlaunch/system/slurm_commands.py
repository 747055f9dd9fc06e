"""Slurm's commands about jobs: what is in the queue, submit, cancel, signal, requeue."""

from __future__ import annotations

import math
import os
import re
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from zlaunch.errors import BackendError, InputError
from zlaunch.spec.slurm_queue import FORMAT, Job, find_job, parse_queue

_PATIENCE = 20.0  # seconds for what is to be done; a busy controller takes some
_LOOK = 3.0  # seconds for a look at the queue, which many commands take just to show it
_LOOK_EVERY = 3.0  # seconds that an answer holds: many ask a controller
_SILENT = 10.0  # seconds until one that did not answer is asked again
_AT_ONCE = 500  # jobs on a command line
_ID = re.compile(r"[0-9]+(?:_[0-9]+)?")
_SQUEUE = ("squeue", "--me", "-h", "-r", "-t", "all", "-o", FORMAT)


class Queue:
    """The jobs of this user, asked for once for all who want to know at about the same time."""

    def __init__(self) -> None:
        self._jobs: Mapping[str, Job] = {}
        self._asked = -math.inf
        self._silent: str | None = None  # why there is no answer

    def job(self, name: str, within: float = _LOOK_EVERY, patience: float = _LOOK) -> Job | None:
        """Return a job, None for one that Slurm does not know, by an answer not older than that.

        `within` and `patience` are in seconds. Raises BackendError where Slurm does not answer; for
        some time it is not asked again then.
        """
        holds = within if self._silent is None else _SILENT
        if time.monotonic() - self._asked >= holds:
            self._ask(patience)
        if self._silent is not None:
            raise BackendError(self._silent)
        return find_job(self._jobs, name)

    def _ask(self, patience: float) -> None:
        try:
            said = _run(*_SQUEUE, patience=patience, env=_plain())
            self._jobs, self._silent = parse_queue(said), None
        except BackendError as error:
            self._silent = error.message
        self._asked = time.monotonic()

    def forget(self) -> None:
        """Something was changed: ask again."""
        self._asked = -math.inf


QUEUE = Queue()
"""That of this process."""


def submit(script: Path, env: Mapping[str, str]) -> tuple[str, str]:
    """Submit a batch script; return the job, and what sbatch said beside it.

    Raises InputError with sbatch's own words where it refuses.
    """
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", str(script)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False, env=dict(env), start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise InputError(f"sbatch could not be started: {error.strerror}") from error
    except KeyboardInterrupt:
        with suppress(BackendError):  # without its run the job ends by itself as it begins
            _take_back(script)
        raise
    words = "\n".join(line.removeprefix("sbatch: ") for line in done.stderr.strip().splitlines())
    lines = done.stdout.strip().splitlines()
    job = lines[-1].partition(";")[0] if lines else ""
    if done.returncode or not _ID.fullmatch(job):
        said = words or done.stdout.strip() or f"exit code {done.returncode}"
        raise InputError(f"sbatch refuses: {said.removeprefix('error: ')}")
    return job, words


def _take_back(script: Path) -> None:
    """Cancel a job that Slurm may have taken although sbatch has not said so yet."""
    said = _run("squeue", "--me", "-h", "-o", "%F|%o", patience=_LOOK, env=_plain())
    jobs = {line.partition("|")[0] for line in said.splitlines() if line.endswith(f"|{script}")}
    if jobs:
        _run("scancel", "--quiet", *jobs, patience=_LOOK)


def cancel_waiting(*jobs: str) -> None:
    """Cancel jobs that have not started; others go on. Raises BackendError."""
    QUEUE.forget()
    # Not by --state=PENDING: of an array that would be all tasks that wait.
    found = {name: QUEUE.job(name, patience=_PATIENCE) for name in jobs}
    waiting = [name for name, job in found.items() if job is not None and job.waits]
    for first in range(0, len(waiting), _AT_ONCE):
        _run("scancel", "--quiet", *waiting[first : first + _AT_ONCE])
    QUEUE.forget()


def signal_batch(job: str, name: str) -> None:
    """Send a signal to the batch script of a job, and to nothing else of it.

    Raises BackendError.
    """
    _run("scancel", "--batch", f"--signal={name}", job)


def requeue(job: str) -> None:
    """Put a job back into the queue; raises BackendError with the reason where that cannot be."""
    _run("scontrol", "requeue", job)


def _plain() -> dict[str, str]:
    """The environment without the user's own wishes for squeue, which could hide jobs."""
    shape = ("SQUEUE_", "SLURM_TIME_FORMAT")
    return {name: value for name, value in os.environ.items() if not name.startswith(shape)}


def _run(*words: str, patience: float = _PATIENCE, env: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False, timeout=patience, start_new_session=True, env=env,
        )  # fmt: skip
    except OSError as error:
        raise BackendError(f"{words[0]} could not be started: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"{words[0]} did not answer within {patience:g} s") from error
    if done.returncode:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise BackendError(f"{words[0]}: {said}")
    return done.stdout
