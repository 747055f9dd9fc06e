"""Signals that are passed on to all ranks: one wish is one signal.

A scheduler may send its signal to the launcher alone or to every node, and each node's agent tells
the launcher of it. The same signal from somebody else, soon after, is the same wish; from the same
sender it is another one, but for an agent that gets it at once from its keeper too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from zlaunch.frozen import frozen

LAUNCHER = -1
"""As a sender; nodes have their ranks."""

_APART = 1.0  # seconds within which a scheduler has reached all nodes
_TWICE = 0.3  # seconds within which it has reached all processes of one


@frozen
class Wish:
    """A signal that was passed on at `at`, and who has sent it since."""

    at: float
    senders: frozenset[int]


@frozen
class Wishes:
    """The last wish by signal number."""

    last: Mapping[int, Wish] = field(default_factory=dict)

    def heard(self, signum: int, sender: int, now: float) -> tuple[Wishes, bool]:
        """Return what is known afterwards, and whether the signal is to be passed on.

        `sender` is a node's rank or LAUNCHER; `now` is in seconds.
        """
        last = self.last.get(signum)
        again = last is not None and sender in last.senders
        at_once = last is not None and sender != LAUNCHER and now - last.at <= _TWICE
        if last is None or now - last.at > _APART or (again and not at_once):
            wish, passed_on = Wish(now, frozenset({sender})), True
        else:
            wish, passed_on = Wish(last.at, last.senders | {sender}), False
        return Wishes({**self.last, signum: wish}), passed_on
