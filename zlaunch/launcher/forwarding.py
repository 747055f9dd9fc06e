"""Signals that are the ranks' business: passed on to each rank's main process, ending nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection

from zlaunch.launcher.agents import Agents
from zlaunch.run.messages import Signal, Told
from zlaunch.run.passing_on import LAUNCHER, Wishes
from zlaunch.system.loop import Loop

FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
"""Where nobody says anything else."""
NOBODY = "no rank is running, so it was passed on to nobody"


class Forwarding:
    """Passes on the signals `signums`, whoever in the run has got them.

    `on_passed` is called with each that went to the ranks; `on_heard` before that, with each that
    came to this process, whether there are ranks or not.
    """

    def __init__(
        self,
        signums: Collection[int],
        agents: Agents,
        say: Callable[[str], None],
        is_running: Callable[[], bool],
    ) -> None:
        self.signums = tuple(signums)
        self._agents = agents
        self._say = say
        self._is_running = is_running
        self._wishes = Wishes()
        self.on_passed: Callable[[int], None] = lambda _: None
        self.on_heard: Callable[[int], None] = lambda _: None

    def install(self, loop: Loop) -> None:
        """Hear them here."""
        loop.on_signal(self.signums, lambda signum: self._pass_on(signum, LAUNCHER))

    def told(self, event: Told) -> bool:
        """Take in what a node's agent got; whether it is one of ours."""
        if event.signum not in self.signums:
            return False
        self._pass_on(event.signum, event.node_rank)
        return True

    def order(self, signum: int) -> None:
        """Pass it on: somebody asked for just that."""
        self._agents.order(Signal(signum))

    def _pass_on(self, signum: int, sender: int) -> None:
        self._wishes, is_new = self._wishes.heard(signum, sender, time.monotonic())
        if not is_new:
            return
        if sender == LAUNCHER:
            self.on_heard(signum)
        if self._is_running():
            self.order(signum)
            self.on_passed(signum)
        else:
            self._say(f"{signal_name(signum)}: {NOBODY}")


def signal_name(signum: int) -> str:
    """`SIGUSR1`, `SIGRTMIN+3`."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIGRTMIN+{signum - signal.SIGRTMIN}"
