"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zlaunch.run.messages import Exited

WRONG_INPUT = 2
ZLAUNCH_FAILED = 125


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    `exits` maps each rank that was started to its end; `first_failure` is the first rank
    that failed of its own; `stopped_by` the signal with which the user ended the run;
    `trouble` says what zlaunch itself could not do (an agent lost, a process not to be killed);
    with `unfit` it is what was found wrong with the nodes before anything was started.
    """

    exits: Mapping[int, Exited]
    first_failure: Exited | None = None
    stopped_by: int | None = None
    trouble: str | None = None
    unfit: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code of zlaunch: never 0 when something failed or was killed."""
        if self.first_failure is not None:
            return self.first_failure.exit.status
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        if self.unfit:
            return WRONG_INPUT
        if self.trouble is not None or any(end.exit.status for end in self.exits.values()):
            return ZLAUNCH_FAILED
        return 0
