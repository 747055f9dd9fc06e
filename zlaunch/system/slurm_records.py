"""Asks Slurm's commands what is on record of jobs, without waiting long for any of them."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Iterable, Sequence

from zlaunch.spec.slurm_records import (
    SACCT_FORMAT,
    SINFO_FORMAT,
    SQUEUE_FORMAT,
    JobRecord,
    NodeRecord,
    read_job,
    read_sacct,
    read_sinfo,
    read_squeue,
)

_LONGEST = 3.0  # seconds for one command


class SlurmRecords:
    """What Slurm answers within so many `seconds`, all questions together.

    Where a command is missing or does not answer, or a job is forgotten, there is just no answer.
    """

    def __init__(self, seconds: float, longest: float = _LONGEST) -> None:
        """`longest` is how long one command may take, in seconds."""
        self._until = time.monotonic() + seconds
        self._longest = longest
        # Slurm's own variables could change what is printed; seconds are in no time zone.
        shape = ("SACCT_", "SQUEUE_", "SINFO_", "SLURM_TIME_FORMAT")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(shape)}
        self._env = {**kept, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}

    def accounted(self, jobs: Iterable[str]) -> tuple[JobRecord, ...]:
        """What accounting has of these jobs: each start of each."""
        words = ("sacct", "-D", "-P", "-n", "-o", SACCT_FORMAT, "-j", ",".join(jobs))
        return read_sacct(self._ask(words))

    def job(self, job: str) -> JobRecord | None:
        """What the controller knows of a job; some minutes after its end that is nothing."""
        return read_job(self._ask(("scontrol", "show", "job", "-o", job)))

    def queued(self, jobs: Iterable[str]) -> tuple[JobRecord, ...]:
        """What the controller knows of these jobs, in few words."""
        words = ("squeue", "-h", "-t", "all", "-o", SQUEUE_FORMAT, "-j", ",".join(jobs))
        return read_squeue(self._ask(words))

    def nodes(self, names: Iterable[str]) -> tuple[NodeRecord, ...]:
        """How these nodes are now."""
        return read_sinfo(
            self._ask(("sinfo", "-h", "-N", "-o", SINFO_FORMAT, "-n", ",".join(names)))
        )

    def _ask(self, words: Sequence[str]) -> str:
        left = min(self._longest, self._until - time.monotonic())
        if left <= 0:
            return ""
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, errors="replace", env=self._env,
                stdin=subprocess.DEVNULL, timeout=left, check=False, start_new_session=True,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout if done.returncode == 0 else ""


def user_name(number: str) -> str:
    """The name of a user, as far as this machine knows him."""
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, ValueError, OverflowError):
        return f"user {number}"
