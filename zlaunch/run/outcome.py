"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.run.job_end import NODE_FAILED, STOPS, TIME_LIMIT, JobEnd
from zlaunch.run.messages import Exited

WRONG_INPUT = 2
LIMIT_RAN_OUT = 124
ZLAUNCH_FAILED = 125
_KILL, _TERM = 9, 15


@frozen
class Attempt:
    """An attempt that failed and was followed by another; `seconds` is how long it lived."""

    number: int
    seconds: float
    first_failure: Exited


@frozen
class Outcome:
    """The end of a run.

    `exits` maps each rank that was started to its end, in the last attempt; `first_failure` is
    the first rank that failed of its own; `stopped_by` the signal with which the user ended the
    run; `trouble` says what zlaunch itself could not do (an agent lost, a process not to be
    killed); with `unfit` it is what was found wrong with the nodes before anything was started.
    `limit` names a limit of the user's that ran out; `past` holds the attempts that were to be
    followed by another, and `attempts` says in how many a rank was started. `job_end` is how Slurm
    ended the job that the run was in, or its steps.
    """

    exits: Mapping[int, Exited]
    first_failure: Exited | None = None
    stopped_by: int | None = None
    trouble: str | None = None
    unfit: bool = False
    limit: str | None = None
    past: tuple[Attempt, ...] = ()
    attempts: int = 0
    job_end: JobEnd | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of zlaunch: never 0 when something failed or was killed."""
        if self.first_failure is not None:
            return self.first_failure.exit.status
        if self.limit is not None:  # a signal may have come on top
            return LIMIT_RAN_OUT
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        if self.unfit:
            return WRONG_INPUT
        if self.trouble is not None or any(end.exit.status for end in self.exits.values()):
            return ZLAUNCH_FAILED
        return 0

    def within(self, end: JobEnd, title: str) -> Outcome:
        """Return what it is, seen together with how Slurm ended the job; `title` says that.

        A signal that Slurm sent is no wish of the user's, nor a rank's own failure.
        """
        told = replace(self, job_end=end)
        if end.code == TIME_LIMIT:
            return replace(told, first_failure=self._own(end), limit=self.limit or title)
        if end.code in STOPS:
            by = self.stopped_by or _TERM
            return replace(told, first_failure=self._own(end), stopped_by=by)
        trouble = self.trouble or title
        if end.code == NODE_FAILED:
            return replace(told, first_failure=self._own(end), stopped_by=None, trouble=trouble)
        return told if self.first_failure is not None else replace(told, trouble=trouble)

    def _own(self, end: JobEnd) -> Exited | None:
        """The first failure, if it was none of Slurm's."""
        first = self.first_failure
        if first is None or first.exit.signal in (_KILL, _TERM):
            return None
        return None if end.at is not None and first.at >= end.at - 1.0 else first
