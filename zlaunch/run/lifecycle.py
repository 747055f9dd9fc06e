"""The life of a run, decided apart from being done.

`step(state, event, now) -> (state, actions)` holds every rule: fail fast, grace, second
Ctrl-C, lost agents, restarts. It reads no clock and touches nothing; the launcher's loop
performs the actions.

    STARTING --all agents ready, all nodes fit--> RUNNING --all ranks closed--> over
       STARTING --a node is not fit--> DONE
       RUNNING --a rank fails--> FAILING --a moment later--> STOPPING
       STARTING, RUNNING, FAILING --an agent is lost, a stop signal--> STOPPING
       STARTING, RUNNING --a limit of the user's runs out--> STOPPING
       STOPPING --second signal, or the deadline--> KILLING --deadline--> DONE
       FAILING, STOPPING, KILLING --all ranks closed--> over
    over --a rank had failed, and a restart is allowed--> PAUSING --the pause ends--> STARTING
    over --else--> DONE
       PAUSING --an agent is lost, a stop signal, the run goes on elsewhere--> DONE
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from zlaunch.run.actions import (
    CheckNodes,
    JudgeFailure,
    Mention,
    SetDeadline,
    StartWorkers,
)
from zlaunch.run.ends import Step, begin_again, end_if_over, finish, kill, stop
from zlaunch.run.messages import Closed, Exited, Ready, Refused, Started, Told, Unkillable
from zlaunch.run.state import (
    AgentLost,
    AttemptJudged,
    DeadlinePassed,
    FailureJudged,
    Happening,
    Interrupted,
    LimitRanOut,
    NodesFit,
    NodesUnfit,
    Phase,
    RunState,
    TimeNearlyOver,
)
from zlaunch.spec.ranks import describe_ranks

# Wrappers pass Ctrl-C on although the terminal has sent it already; a person is slower.
_SECOND_SIGNAL_APART = 0.3
_TERM = 15
# Seconds that other ranks have from a failure to their TERM, since theirs may be the cause of it,
# or the same: to say so takes a moment. More where the first says that it lost another one.
_MOMENT, _LONGER = 0.1, 0.5
# Seconds after which it is worth a word that some ranks are done and others are not.
_UNEVEN_END = 60.0


def step(state: RunState, event: Happening, now: float) -> Step:
    """Return the state after `event` and what is to be done. `now` is monotonic, in seconds."""
    rule = _RULES.get(type(event))
    if rule is None or state.phase is Phase.DONE:
        return state, ()
    return rule(state, event, now)


# Before and at the start


def _ready(state: RunState, event: Ready, _now: float) -> Step:
    state = replace(state, waiting=state.waiting - {event.node_rank})
    if state.waiting or state.phase is not Phase.STARTING:
        return state, ()
    return state, (CheckNodes(),)


def _nodes_fit(state: RunState, event: NodesFit, now: float) -> Step:
    if state.phase is not Phase.STARTING:
        return state, ()
    if state.trouble is not None:  # another node could not be reached
        return stop(state, state.trouble, now)
    start = StartWorkers(event.address, event.port, state.attempt)
    state = replace(state, phase=Phase.RUNNING, exits={}, started_at=now)
    return state, (start,)


def _nodes_unfit(state: RunState, event: NodesUnfit, now: float) -> Step:
    if state.phase is not Phase.STARTING:
        return state, ()
    if state.trouble is not None:
        return stop(replace(state, trouble=f"{state.trouble}\n{event.problem}"), state.trouble, now)
    unfit = not state.past  # else it is no wrong input: something was started
    return stop(replace(state, trouble=event.problem, unfit=unfit), event.problem, now)


# Ranks


def _started(state: RunState, _event: Started, now: float) -> Step:
    """What its node built beforehand is no part of a rank's life."""
    began = now if state.phase is Phase.RUNNING else state.started_at
    return replace(state, attempts=state.attempt + 1, started_at=began), ()


def _exited(state: RunState, event: Exited, now: float) -> Step:
    state = replace(state, exits={**state.exits, event.rank: event})
    if state.phase is not Phase.RUNNING:
        return state, ()
    if event.exit.status:
        state = replace(state, phase=Phase.FAILING, first_failure=event, failed_at=now)
        return state, (SetDeadline(now + _MOMENT),)
    if state.first_end is not None or not state.running:
        return state, ()
    state = replace(state, first_end=now)
    limit = state.rules.exit_limit
    wait = _UNEVEN_END if limit is None else min(limit, _UNEVEN_END)
    return state, (SetDeadline(now + wait),)


def _moment_over(state: RunState, now: float) -> Step:
    assert state.first_failure is not None
    if not state.judged:
        return replace(state, judged=True), (JudgeFailure(state.first_failure.rank),)
    return stop(state, f"rank {state.first_failure.rank} failed", now)


def _failure_judged(state: RunState, event: FailureJudged, now: float) -> Step:
    if state.phase is not Phase.FAILING:
        return state, ()
    if event.of_its_own:
        return _moment_over(state, now)
    assert state.failed_at is not None
    return state, (SetDeadline(state.failed_at + _LONGER),)


def _attempt_judged(state: RunState, event: AttemptJudged, _now: float) -> Step:
    if state.phase is not Phase.PAUSING:
        return state, ()
    *before, last = state.past
    return replace(state, past=(*before, replace(last, first_failure=event.failure))), ()


def _uneven_end(state: RunState, now: float) -> Step:
    """Some ranks ended with 0 a while ago, and others go on."""
    if state.first_end is None or not state.running:
        return state, ()
    done, running = describe_ranks(state.everyone - state.running), describe_ranks(state.running)
    limit, since = state.rules.exit_limit, now - state.first_end
    if limit is None or since < limit:
        words = f"{done} ended with 0, the first {since:.0f} s ago; {running} still running"
        more = () if limit is None else (SetDeadline(state.first_end + limit),)
        return state, (Mention(words), *more)
    words = f"{running} still running {limit:g} s after another rank ended with 0 (--exit-limit)"
    return _limit_ran_out(state, LimitRanOut(words), now)


def _refused(state: RunState, event: Refused, now: float) -> Step:
    state = replace(state, open=state.open - {event.rank})
    if state.trouble is None:
        state = replace(state, trouble=f"rank {event.rank} could not be started: {event.reason}")
    if state.phase not in (Phase.RUNNING, Phase.FAILING):
        return end_if_over(state, now)
    return stop(state, f"rank {event.rank} could not be started", now)


def _unkillable(state: RunState, event: Unkillable, _now: float) -> Step:
    who = f"rank {event.rank}" if event.rank >= 0 else "a process that a rank started"
    name = f"pid {event.pid}, {event.name}" if event.name else f"pid {event.pid}"
    node = f" on node {event.node_rank}" if len(state.nodes) > 1 else ""
    place = f" in {event.place}" if event.place else ""
    words = f"{who} ({name}){node} does not die of KILL: state {event.state or '?'}{place}"
    trouble = f"{state.trouble}\n{words}" if state.trouble else words
    return replace(state, trouble=trouble), (Mention(words),)


def _closed(state: RunState, event: Closed, now: float) -> Step:
    return end_if_over(replace(state, open=state.open - {event.rank}), now)


# Agents


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
        return state, () if before else (SetDeadline(now + state.rules.patience),)
    if starting and waited_for and state.open:
        return state, (CheckNodes(),)  # so that what is wrong with the others is told too
    if state.phase in (Phase.STOPPING, Phase.KILLING):
        return end_if_over(state, now)
    return stop(state, event.reason, now)


# Stop signals


def _told(state: RunState, event: Told, now: float) -> Step:
    # A scheduler may send its signal to many nodes; a second one to the same node is a person's.
    before = state.told.get(event.node_rank)
    if before is not None and now - before < _SECOND_SIGNAL_APART:
        return state, ()
    state = replace(state, told={**state.told, event.node_rank: now})
    if state.phase not in (Phase.STOPPING, Phase.KILLING):
        state = replace(state, stopped_by=event.signum)
        return stop(state, f"node {event.node_rank} was told to stop", now)
    if before is None or state.phase is Phase.KILLING:
        return state, ()
    return kill(state, "asked again", now)


def _interrupted(state: RunState, event: Interrupted, now: float) -> Step:
    before = state.signalled_at
    if before is not None and now - before < _SECOND_SIGNAL_APART and not event.at_once:
        return state, ()
    state = replace(state, signalled_at=now)
    if state.phase not in (Phase.STOPPING, Phase.KILLING):
        stopped, actions = stop(replace(state, stopped_by=event.signum), "interrupted", now)
        killed = event.at_once and stopped.phase is Phase.STOPPING
        return kill(stopped, "interrupted", now) if killed else (stopped, actions)
    if state.phase is Phase.KILLING:
        return state, ()
    if before is None and state.stopped_by is not None and not event.at_once:
        return state, ()  # a node was told first; this is the same wish, not a second one
    if before is None and state.trouble is not None and event.signum == _TERM and not event.at_once:
        return state, ()  # a scheduler takes a job back one of whose nodes has failed
    # Whoever presses Ctrl-C while ranks are being stopped wants the end now.
    state = replace(state, stopped_by=state.stopped_by or event.signum)
    return kill(state, "asked again", now)


def _limit_ran_out(state: RunState, event: LimitRanOut, now: float) -> Step:
    if state.phase not in (Phase.STARTING, Phase.RUNNING):
        return state, ()
    return stop(replace(state, limit=event.what), event.what, now)


def _time_nearly_over(state: RunState, _event: TimeNearlyOver, _now: float) -> Step:
    state = replace(state, leaves=True)
    return finish(state) if state.phase is Phase.PAUSING else (state, ())


def _deadline_passed(state: RunState, _event: DeadlinePassed, now: float) -> Step:
    if state.phase is Phase.STARTING:
        return stop(state, state.trouble or "a node was lost", now)
    if state.phase is Phase.RUNNING:
        return _uneven_end(state, now)
    if state.phase is Phase.FAILING:
        return _moment_over(state, now)
    if state.phase is Phase.STOPPING:
        return kill(state, "the grace is over", now)
    if state.phase is Phase.PAUSING:
        return begin_again(state)
    left = describe_ranks(state.open)
    return finish(replace(state, trouble=state.trouble or f"{left} could not be killed"))


_RULES: Mapping[type, Callable[[RunState, Any, float], Step]] = {
    Ready: _ready,
    NodesFit: _nodes_fit,
    NodesUnfit: _nodes_unfit,
    FailureJudged: _failure_judged,
    AttemptJudged: _attempt_judged,
    Started: _started,
    Exited: _exited,
    Refused: _refused,
    Closed: _closed,
    Unkillable: _unkillable,
    AgentLost: _agent_lost,
    Interrupted: _interrupted,
    Told: _told,
    DeadlinePassed: _deadline_passed,
    LimitRanOut: _limit_ran_out,
    TimeNearlyOver: _time_nearly_over,
}
