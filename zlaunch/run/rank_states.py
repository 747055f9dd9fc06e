"""What became of each rank, told by the events of a run that were written down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from zlaunch.frozen import frozen

WAITING, RUNNING, ENDED, REFUSED, LOST = "waiting", "running", "ended", "refused", "lost"
NEVER = "not started"

_WHEN_OVER = {RUNNING: LOST, WAITING: NEVER}


@frozen
class RankState:
    """One rank: waiting (not started yet), running, ended, refused (not to be started) or lost.

    Where the run was over before it was its turn: not started.

    `attempt` counts from 0; `pid` is that of its last start, on its own host. `at` is when it
    came to this state, in seconds since the epoch.
    """

    state: str = WAITING
    attempt: int = -1
    pid: int | None = None
    code: int | None = None
    signal: int | None = None
    at: float | None = None


def rank_states(
    events: Iterable[Mapping[str, Any]], world_size: int, *, over: bool
) -> list[RankState]:
    """Return the state of each rank; of a run that is `over` none runs or waits."""
    states = [RankState()] * world_size
    for event in events:
        rank = event.get("rank")
        if isinstance(rank, int) and 0 <= rank < world_size:
            states[rank] = after(states[rank], event)
    if over:
        states = [replace(s, state=when_over(s.state)) for s in states]
    return states


def when_over(state: str) -> str:
    """What a state becomes where the run is over."""
    return _WHEN_OVER.get(state, state)


def after(before: RankState, event: Mapping[str, Any]) -> RankState:
    """Return the state of a rank after an event that is its own."""
    what, at = event.get("event"), event.get("at")
    if what == "Started":
        return RankState(RUNNING, before.attempt + 1, event.get("pid"), at=at)
    if what == "Refused":
        return RankState(REFUSED, before.attempt + 1, at=at)
    if what == "Exited":
        how = event.get("exit") or {}
        return replace(before, state=ENDED, code=how.get("code"), signal=how.get("signal"), at=at)
    return before
