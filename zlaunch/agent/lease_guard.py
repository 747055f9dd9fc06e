"""Keeps leases where others look for them, when somebody removes the directory or files in it.

A lock on a file that has no name any more keeps nobody out. People clear /tmp, and so do programs
that know of no locks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Callable

from zlaunch.spec.leases import Claim
from zlaunch.system.changes import Changes, can_watch
from zlaunch.system.leases import Leases
from zlaunch.system.loop import READ, Loop, Timer

_LOOK_EVERY = 1.0  # seconds, only where the system does not tell of changes
_MOST = 8  # takings in a row; who removes as fast as that is not outrun


class LeaseGuard:
    """Of what this node holds. `say` takes what the user should know."""

    def __init__(
        self, loop: Loop, leases: Leases, claim: Claim, say: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._leases = leases
        self._claim = claim
        self._say = say
        self._said: set[str] = set()
        self._changes: Changes | None = None
        self._timer: Timer | None = None
        self._watch()
        self._look()  # it may have gone before anybody watched

    def close(self) -> None:
        """Look no more."""
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        self._unwatch()
        with suppress(OSError):  # no watch is left, or the directory goes again
            if can_watch():
                self._changes = Changes([self._leases.path], only_removals=True)
                self._loop.watch(self._changes.fd, READ, self._changed)

    def _unwatch(self) -> None:
        if self._changes is not None:
            self._loop.unwatch(self._changes.fd, READ)
            self._changes.close()
            self._changes = None

    def _changed(self) -> None:
        if self._changes is not None:
            self._changes.clear()
        self._look()

    def _look(self) -> None:
        for _ in range(_MOST):
            if not self._leases.is_displaced():
                break
            if not self._take_again():
                break
            self._watch()
        if self._changes is None and self._timer is None:
            self._timer = self._loop.after(_LOOK_EVERY, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._look()

    def _take_again(self) -> bool:
        """Say what came of it, once; whether it is worth another look."""
        path = self._leases.path
        try:
            lost = self._leases.take_again(self._claim)
        except FileNotFoundError:  # it goes again at this moment
            return True
        except OSError as error:
            self._unwatch()
            self._say_once(
                f"{path} was removed, and so GPUs are not protected from other launches any more: "
                f"{os.strerror(error.errno or 0)}"
            )
            return False
        if lost:
            self._say_once(
                f"leases in {path} were removed, and another launch has taken GPUs of this run "
                "meanwhile: zlaunch ps shows which runs there are"
            )
            return False
        self._say_once(f"leases in {path} were removed by somebody; they were taken again")
        return True

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)
