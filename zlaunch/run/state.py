"""Where a run stands, and what can happen to it: all that `lifecycle.step` looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from zlaunch.frozen import frozen
from zlaunch.run.messages import Event, Exited
from zlaunch.run.outcome import Attempt, Outcome
from zlaunch.run.restarts import Restarts


class Phase(Enum):
    """Where a run stands."""

    STARTING = "starting"
    RUNNING = "running"
    FAILING = "failing"
    STOPPING = "stopping"
    KILLING = "killing"
    PAUSING = "pausing"
    DONE = "done"


# What happens, beside the events that agents send.


@frozen
class AgentLost:
    """The link to a node's agent has ended before its workers had."""

    node_rank: int
    reason: str


@frozen
class NodesFit:
    """The good answer to `CheckNodes`: address and port at which rank 0 is met."""

    address: str
    port: int


@frozen
class NodesUnfit:
    """The bad answer to `CheckNodes`, with all that is wrong."""

    problem: str


@frozen
class FailureJudged:
    """The answer to `JudgeFailure`: whether the rank failed of its own, by what it printed."""

    of_its_own: bool


@frozen
class AttemptJudged:
    """Which rank failed of its own in the attempt that a `Rest` is taken from."""

    failure: Exited


@frozen
class Interrupted:
    """The launcher received a signal that stops the run; `at_once` without any grace."""

    signum: int
    at_once: bool = False


@frozen
class DeadlinePassed:
    """The time that `SetDeadline` asked for has come."""


@frozen
class TimeNearlyOver:
    """The run is to go on elsewhere: no further attempt starts here."""


@frozen
class LimitRanOut:
    """A limit that the user set has run out; `what` says which."""

    what: str


Happening = (
    Event
    | AgentLost
    | NodesFit
    | NodesUnfit
    | FailureJudged
    | AttemptJudged
    | Interrupted
    | DeadlinePassed
    | TimeNearlyOver
    | LimitRanOut
)


@frozen
class Rules:
    """What the user asked for; times in seconds.

    `grace` is between TERM and KILL. `patience` is how long other nodes have to be ready once
    one is lost. `exit_limit` is how long ranks may go on after the first one ended with 0, None
    for ever.
    """

    grace: float
    patience: float = 15.0
    restarts: Restarts = field(default_factory=Restarts)
    exit_limit: float | None = None


@frozen
class RunState:
    """All that the rules look at.

    `nodes` maps a node rank to its ranks; `waiting` holds nodes whose agent is not ready;
    `open` holds ranks that are not closed yet. `signalled_at` and `told`, by node rank, are when
    we or a node's agent last got a stop signal. `started_at` is when the workers of this
    attempt were started, `failed_at` when the first rank of it failed and `judged` whether it
    was asked why, `first_end` when one ended with 0 while others ran; `limit` is the limit of
    the user's that ran out. A run that `leaves` is not started again here. `past` holds the
    attempts before, and `attempts` counts those in which a rank was started, with the `first` ones
    of another launcher, in an earlier start of a job.
    """

    nodes: Mapping[int, frozenset[int]]
    rules: Rules
    waiting: frozenset[int]
    open: frozenset[int]
    phase: Phase = Phase.STARTING
    exits: Mapping[int, Exited] = field(default_factory=dict)
    first_failure: Exited | None = None
    stopped_by: int | None = None
    signalled_at: float | None = None
    told: Mapping[int, float] = field(default_factory=dict)
    trouble: str | None = None
    unfit: bool = False
    limit: str | None = None
    leaves: bool = False
    started_at: float | None = None
    failed_at: float | None = None
    judged: bool = False
    first_end: float | None = None
    past: tuple[Attempt, ...] = ()
    attempts: int = 0
    first: int = 0

    @classmethod
    def begin(cls, nodes: Mapping[int, frozenset[int]], rules: Rules, first: int = 0) -> RunState:
        """Return the state before anything has happened; `first` attempts were elsewhere."""
        return cls(nodes, rules, frozenset(nodes), _everyone(nodes), attempts=first, first=first)

    @property
    def attempt(self) -> int:
        """The number of the attempt that is to start, or has."""
        return self.first + len(self.past)

    @property
    def everyone(self) -> frozenset[int]:
        """All ranks."""
        return _everyone(self.nodes)

    @property
    def running(self) -> frozenset[int]:
        """The ranks whose main process has not ended."""
        return self.open - self.exits.keys()

    @property
    def has_ranks(self) -> bool:
        """Whether there are ranks that a signal could be for."""
        return self.phase in (Phase.RUNNING, Phase.STOPPING, Phase.KILLING) and bool(self.running)

    @property
    def lived(self) -> float:
        """Seconds from the start of the workers to the first failure."""
        assert self.started_at is not None and self.failed_at is not None
        return self.failed_at - self.started_at

    @property
    def outcome(self) -> Outcome:
        """What the run has come to so far."""
        return Outcome(
            self.exits,
            self.first_failure,
            self.stopped_by,
            self.trouble,
            self.unfit,
            self.limit,
            self.past,
            self.attempts,
        )


def _everyone(nodes: Mapping[int, frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*nodes.values())
