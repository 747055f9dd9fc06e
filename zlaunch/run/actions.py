"""What the lifecycle of a run has done: its decisions, as values."""

from __future__ import annotations

from dataclasses import dataclass

from zlaunch.run.outcome import Outcome


@dataclass(frozen=True)
class CheckNodes:
    """All agents are ready: see whether their nodes are fit, and where rank 0 can be met."""


@dataclass(frozen=True)
class StartWorkers:
    """Send every agent its plan, with the place of rank 0."""

    address: str
    port: int


@dataclass(frozen=True)
class StopWorkers:
    """Tell every agent to stop its workers within `grace` seconds."""

    grace: float
    why: str


@dataclass(frozen=True)
class SetDeadline:
    """Let `DeadlinePassed` happen at `at` (the clock of `now`)."""

    at: float


@dataclass(frozen=True)
class Finish:
    """The run is over."""

    outcome: Outcome


Action = CheckNodes | StartWorkers | StopWorkers | SetDeadline | Finish
