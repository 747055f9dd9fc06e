"""How a run is brought to its end: stopped, killed, over; or begun again.

The part of the lifecycle that its rules share; pure as they are.
"""

from __future__ import annotations

from dataclasses import replace

from zlaunch.run.actions import Action, CheckNodes, Finish, Mention, Rest, SetDeadline, StopWorkers
from zlaunch.run.outcome import Attempt
from zlaunch.run.restarts import pause_before, why_not
from zlaunch.run.state import Phase, RunState

# The agent itself kills at the end of the grace; the launcher waits this much longer for
# its word, in seconds, before it takes the matter up again.
_AGENT_MARGIN = 5.0

Step = tuple[RunState, tuple[Action, ...]]


def stop(state: RunState, why: str, now: float) -> Step:
    """Tell all ranks to end within the grace; where none is there, the run is over."""
    if state.phase in (Phase.STARTING, Phase.PAUSING):  # no rank is there to be waited for
        state = replace(state, open=frozenset())
    state = replace(state, phase=Phase.STOPPING)
    if not state.open:
        return end_if_over(state, now)
    deadline = SetDeadline(now + state.rules.grace + _AGENT_MARGIN)
    return state, (StopWorkers(state.rules.grace, why), deadline)


def kill(state: RunState, why: str, now: float) -> Step:
    """Kill what did not end."""
    state = replace(state, phase=Phase.KILLING)
    return state, (StopWorkers(0.0, why), SetDeadline(now + _AGENT_MARGIN))


def end_if_over(state: RunState, now: float) -> Step:
    """Finish once every rank is closed; or rest, where another attempt is allowed."""
    if state.open:
        return state, ()
    failure = state.first_failure
    restartable = state.stopped_by is None and state.trouble is None and not state.leaves
    if failure is None or not restartable or not state.rules.restarts.most:
        return finish(state)
    attempt, lived = len(state.past), state.lived
    reason = why_not(state.rules.restarts, attempt, state.exits.values(), lived)
    if reason is not None:
        over, actions = finish(state)
        return over, (Mention(f"not started again: {reason}"), *actions)
    failed, pause = Attempt(state.attempt, lived, failure), pause_before(attempt + 1)
    # The failure is past: a signal during the pause ends the run as one that was stopped.
    state = replace(state, phase=Phase.PAUSING, past=(*state.past, failed), first_failure=None)
    return state, (Rest(failed, pause), SetDeadline(now + pause))


def begin_again(state: RunState) -> Step:
    """Start the next attempt."""
    state = replace(state, phase=Phase.STARTING, open=state.everyone)
    state = replace(state, judged=False, first_end=None)
    return state, (CheckNodes(len(state.past)),)


def finish(state: RunState) -> Step:
    """The run is over."""
    state = replace(state, phase=Phase.DONE)
    return state, (Finish(state.outcome),)
