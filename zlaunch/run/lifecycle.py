"""The life of a run, decided apart from being done.

`step(state, event, now) -> (state, actions)` holds every rule: fail fast, grace, second
Ctrl-C, lost agents. It reads no clock and touches nothing; the launcher's loop performs the
actions.

    STARTING --all agents ready, all nodes fit--> RUNNING --all ranks closed--> DONE
       STARTING --a node is not fit--> DONE
       STARTING, RUNNING --a rank fails, an agent is lost, a stop signal--> STOPPING
       STOPPING --second signal, or the deadline--> KILLING --deadline--> DONE
       STOPPING, KILLING --all ranks closed--> DONE
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from zlaunch.run.actions import Action, CheckNodes, Finish, SetDeadline, StartWorkers, StopWorkers
from zlaunch.run.messages import Closed, Event, Exited, Ready, Refused, Told
from zlaunch.run.outcome import Outcome

# The agent itself kills at the end of the grace; the launcher waits this much longer for
# its word, in seconds, before it takes the matter up again.
_AGENT_MARGIN = 5.0
# Wrappers pass Ctrl-C on although the terminal has sent it already; a person is slower.
_SECOND_SIGNAL_APART = 0.3


class Phase(Enum):
    """Where a run stands."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    KILLING = "killing"
    DONE = "done"


@dataclass(frozen=True)
class AgentLost:
    """The link to a node's agent has ended before its workers had."""

    node_rank: int
    reason: str


@dataclass(frozen=True)
class NodesFit:
    """The good answer to `CheckNodes`: address and port at which rank 0 is met."""

    address: str
    port: int


@dataclass(frozen=True)
class NodesUnfit:
    """The bad answer to `CheckNodes`, with all that is wrong."""

    problem: str


@dataclass(frozen=True)
class Interrupted:
    """The launcher received a signal that stops the run."""

    signum: int


@dataclass(frozen=True)
class DeadlinePassed:
    """The time that `SetDeadline` asked for has come."""


Happening = Event | AgentLost | NodesFit | NodesUnfit | Interrupted | DeadlinePassed


@dataclass(frozen=True)
class RunState:
    """All that the rules look at.

    `nodes` maps a node rank to its ranks; `waiting` holds nodes whose agent is not ready;
    `open` holds ranks that are not closed yet. `grace` is in seconds. `signalled_at` and `told`,
    by node rank, are when we or a node's agent last got a stop signal. `patience` is how many
    seconds other nodes have to be ready once one is lost.
    """

    nodes: Mapping[int, frozenset[int]]
    grace: float
    waiting: frozenset[int]
    open: frozenset[int]
    phase: Phase = Phase.STARTING
    exits: Mapping[int, Exited] = field(default_factory=dict)
    first_failure: Exited | None = None
    stopped_by: int | None = None
    signalled_at: float | None = None
    told: Mapping[int, float] = field(default_factory=dict)
    trouble: str | None = None
    patience: float = 15.0
    unfit: bool = False

    @classmethod
    def begin(
        cls, nodes: Mapping[int, frozenset[int]], grace: float, patience: float = 15.0
    ) -> RunState:
        """Return the state before anything has happened."""
        everyone = frozenset().union(*nodes.values())
        return cls(nodes, grace, frozenset(nodes), everyone, patience=patience)

    @property
    def outcome(self) -> Outcome:
        """What the run has come to so far."""
        return Outcome(self.exits, self.first_failure, self.stopped_by, self.trouble, self.unfit)


Step = tuple[RunState, tuple[Action, ...]]


def step(state: RunState, event: Happening, now: float) -> Step:
    """Return the state after `event` and what is to be done. `now` is monotonic, in seconds."""
    rule = _RULES.get(type(event))
    if rule is None or state.phase is Phase.DONE:
        return state, ()
    return rule(state, event, now)


def _ready(state: RunState, event: Ready, _now: float) -> Step:
    state = replace(state, waiting=state.waiting - {event.node_rank})
    if state.waiting or state.phase is not Phase.STARTING:
        return state, ()
    return state, (CheckNodes(),)


def _nodes_fit(state: RunState, event: NodesFit, now: float) -> Step:
    if state.phase is not Phase.STARTING:
        return state, ()
    if state.trouble is not None:  # another node could not be reached
        return _stop(state, state.trouble, now)
    start = StartWorkers(event.address, event.port)
    return replace(state, phase=Phase.RUNNING), (start,)


def _nodes_unfit(state: RunState, event: NodesUnfit, now: float) -> Step:
    if state.phase is not Phase.STARTING:
        return state, ()
    if state.trouble is not None:
        return _stop(
            replace(state, trouble=f"{state.trouble}\n{event.problem}"), state.trouble, now
        )
    return _stop(replace(state, trouble=event.problem, unfit=True), event.problem, now)


def _exited(state: RunState, event: Exited, now: float) -> Step:
    state = replace(state, exits={**state.exits, event.rank: event})
    if state.phase is not Phase.RUNNING or event.exit.status == 0:
        return state, ()
    return _stop(replace(state, first_failure=event), f"rank {event.rank} failed", now)


def _refused(state: RunState, event: Refused, now: float) -> Step:
    state = replace(state, open=state.open - {event.rank})
    if state.trouble is None:
        state = replace(state, trouble=f"rank {event.rank} could not be started: {event.reason}")
    if state.phase is not Phase.RUNNING:
        return _finish_if_over(state)
    return _stop(state, f"rank {event.rank} could not be started", now)


def _closed(state: RunState, event: Closed, _now: float) -> Step:
    return _finish_if_over(replace(state, open=state.open - {event.rank}))


def _agent_lost(state: RunState, event: AgentLost, now: float) -> Step:
    starting = state.phase is Phase.STARTING
    before = f"{state.trouble}\n" if starting and state.trouble else ""
    waited_for = event.node_rank in state.waiting
    state = replace(
        state,
        waiting=state.waiting - {event.node_rank},
        open=state.open - state.nodes[event.node_rank],
        trouble=before + event.reason if starting else state.trouble or event.reason,
    )
    if starting and state.waiting:
        # Each host that cannot be reached is named, not the first alone; but not for ever.
        return state, () if before else (SetDeadline(now + state.patience),)
    if starting and waited_for and state.open:
        return state, (CheckNodes(),)  # so that what is wrong with the others is told too
    if state.phase in (Phase.STOPPING, Phase.KILLING):
        return _finish_if_over(state)
    return _stop(state, event.reason, now)


def _told(state: RunState, event: Told, now: float) -> Step:
    # A scheduler may send its signal to many nodes; a second one to the same node is a person's.
    before = state.told.get(event.node_rank)
    if before is not None and now - before < _SECOND_SIGNAL_APART:
        return state, ()
    state = replace(state, told={**state.told, event.node_rank: now})
    if state.phase in (Phase.STARTING, Phase.RUNNING):
        state = replace(state, stopped_by=event.signum)
        return _stop(state, f"node {event.node_rank} was told to stop", now)
    if before is None or state.phase is Phase.KILLING:
        return state, ()
    return _kill(state, "asked again", now)


def _interrupted(state: RunState, event: Interrupted, now: float) -> Step:
    before = state.signalled_at
    if before is not None and now - before < _SECOND_SIGNAL_APART:
        return state, ()
    state = replace(state, signalled_at=now)
    if state.phase in (Phase.STARTING, Phase.RUNNING):
        state = replace(state, stopped_by=event.signum)
        return _stop(state, "interrupted", now)
    if state.phase is Phase.KILLING:
        return state, ()
    if before is None and state.stopped_by is not None:
        return state, ()  # a node was told first; this is the same wish, not a second one
    # Whoever presses Ctrl-C while ranks are being stopped wants the end now.
    state = replace(state, stopped_by=state.stopped_by or event.signum)
    return _kill(state, "asked again", now)


def _stop(state: RunState, why: str, now: float) -> Step:
    if state.phase is Phase.STARTING:  # no rank has been started, so none is to be waited for
        state = replace(state, open=frozenset())
    state = replace(state, phase=Phase.STOPPING)
    over, finish = _finish_if_over(state)
    if finish:
        return over, finish
    deadline = SetDeadline(now + state.grace + _AGENT_MARGIN)
    return state, (StopWorkers(state.grace, why), deadline)


def _kill(state: RunState, why: str, now: float) -> Step:
    state = replace(state, phase=Phase.KILLING)
    return state, (StopWorkers(0.0, why), SetDeadline(now + _AGENT_MARGIN))


def _deadline_passed(state: RunState, _event: DeadlinePassed, now: float) -> Step:
    if state.phase is Phase.STARTING:
        return _stop(state, state.trouble or "a node was lost", now)
    if state.phase is Phase.STOPPING:
        return _kill(state, "the grace is over", now)
    left = ", ".join(map(str, sorted(state.open)))
    state = replace(
        state, phase=Phase.DONE, trouble=state.trouble or f"ranks {left} could not be killed"
    )
    return state, (Finish(state.outcome),)


def _finish_if_over(state: RunState) -> Step:
    if state.open:
        return state, ()
    state = replace(state, phase=Phase.DONE)
    return state, (Finish(state.outcome),)


_RULES: Mapping[type, Callable[[RunState, Any, float], Step]] = {
    Ready: _ready,
    NodesFit: _nodes_fit,
    NodesUnfit: _nodes_unfit,
    Exited: _exited,
    Refused: _refused,
    Closed: _closed,
    AgentLost: _agent_lost,
    Interrupted: _interrupted,
    Told: _told,
    DeadlinePassed: _deadline_passed,
}
