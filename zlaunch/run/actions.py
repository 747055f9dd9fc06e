"""What the lifecycle of a run has done: its decisions, as values."""

from __future__ import annotations

from zlaunch.frozen import frozen
from zlaunch.run.outcome import Attempt, Outcome


@frozen
class CheckNodes:
    """All agents are ready: see whether their nodes are fit, and where rank 0 can be met.

    In an `attempt` beyond 0 they have been found fit before.
    """

    attempt: int = 0


@frozen
class StartWorkers:
    """Send every agent its plan, with the place of rank 0 and the number of the attempt."""

    address: str
    port: int
    attempt: int = 0


@frozen
class JudgeFailure:
    """See by what the rank printed whether it failed of its own, or for want of another one."""

    rank: int


@frozen
class StopWorkers:
    """Tell every agent to stop its workers within `grace` seconds."""

    grace: float
    why: str


@frozen
class Mention:
    """Tell the user."""

    text: str


@frozen
class Rest:
    """An attempt has failed and all its ranks are closed; the next begins in `pause` seconds."""

    failed: Attempt
    pause: float


@frozen
class SetDeadline:
    """Let `DeadlinePassed` happen at `at` (the clock of `now`)."""

    at: float


@frozen
class Finish:
    """The run is over."""

    outcome: Outcome


Action = (
    CheckNodes | StartWorkers | JudgeFailure | StopWorkers | Mention | Rest | SetDeadline | Finish
)
