"""What stops a run from outside, whoever it came to; and what the user is told is done about it."""

from __future__ import annotations

import signal
from collections.abc import Callable

from zlaunch.run.messages import Told
from zlaunch.run.state import Interrupted, Phase, RunState, TimeNearlyOver
from zlaunch.spec.ranks import describe_ranks


class Stopping:
    """Makes events of wishes. `hear` takes an event; `state` says where the run stands."""

    def __init__(
        self,
        hear: Callable[[Interrupted | Told | TimeNearlyOver], None],
        state: Callable[[], RunState],
        say: Callable[[str], None],
    ) -> None:
        self._hear = hear
        self._state = state
        self._say = say

    def interrupt(self, signum: int) -> None:
        """Stop the run as this signal does; the second time at once."""
        more = "; again to kill at once"
        self._stop_for(Interrupted(signum), signal.Signals(signum).name, more)

    def asked(self, *, at_once: bool) -> None:
        """Another shell wants it: as TERM does, or `at_once` as a second one."""
        self._stop_for(Interrupted(signal.SIGTERM, at_once), "zlaunch stop")

    def leave(self) -> None:
        """The run is to go on elsewhere: once its ranks have ended, none is started here again."""
        self._hear(TimeNearlyOver())

    def time_is_up(self, why: str) -> None:
        """Have ranks end in time, as TERM does."""
        if self._state().phase not in (Phase.STOPPING, Phase.KILLING, Phase.DONE):
            self._stop_for(Interrupted(signal.SIGTERM), why)

    def told(self, event: Told) -> None:
        """A node has got a signal."""
        self._stop_for(event, f"node {event.node_rank} got {signal.Signals(event.signum).name}")

    def _stop_for(self, event: Interrupted | Told, what: str, more: str = "") -> None:
        before = self._state()
        left = describe_ranks(before.open)
        self._hear(event)
        phase = self._state().phase
        if phase is before.phase:
            return
        if phase is Phase.STOPPING:
            self._say(f"{what}: stopping {left}{more}")
        elif phase is Phase.KILLING:
            self._say(f"{what}: killing {left}")
