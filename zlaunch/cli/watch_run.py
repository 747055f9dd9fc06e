"""A run on the whole screen, until the user leaves or the run ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from zlaunch.cli.snapshots import PATIENCE, Lines, head
from zlaunch.errors import ZlaunchError
from zlaunch.run.control import request
from zlaunch.system.control_socket import converse
from zlaunch.system.full_screen import FullScreen
from zlaunch.system.loop import READ, Loop
from zlaunch.system.rundir import RunDir

_LATE = 3.0  # seconds
_LEAVE = (b"q", b"Q", b"\x03", b"\x04")


class Watch:
    """A run on the whole screen."""

    def __init__(self, run: RunDir) -> None:
        from zlaunch.cli.board_screen import Painter

        self._record = run.read_record()
        self._run = run
        self._painter = Painter(os.environ, sys.stdout.encoding)
        self._loop = Loop()
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._screen = FullScreen(sys.stdout.fileno(), self._keys)
        self._snapshot: dict[str, Any] | None = None
        self._heard = time.monotonic()
        self._left = False
        self._failed: ZlaunchError | None = None

    def look(self) -> bool:
        """Show it; return whether the user has left, rather than the run ended.

        Raises NoAnswerError where the launcher cannot be reached.
        """
        connection = converse(self._run, request("watch"), PATIENCE)
        self._lines = Lines(connection)
        loop = self._loop
        loop.watch(connection.fileno(), READ, self._read)
        if self._keys is not None:
            loop.watch(self._keys, READ, self._read_key)
        loop.on_stop_signals(lambda _: self._leave())
        loop.on_signal([signal.SIGWINCH], lambda _: self._draw())
        loop.on_signal([signal.SIGTSTP], lambda _: self._step_aside())
        loop.after(_LATE, self._look_again)
        try:
            self._screen.enter()
            loop.run()
        finally:
            self._screen.leave()
            connection.close()
            loop.close()
        if self._failed is not None:
            raise self._failed
        return self._left

    def _read(self) -> None:
        try:
            snapshots = self._lines.read()
        except ZlaunchError as error:
            self._failed = error
            self._loop.stop()
            return
        if snapshots is None:
            self._loop.stop()
        elif snapshots:
            self._snapshot, self._heard = snapshots[-1], time.monotonic()
            self._draw()

    def _look_again(self) -> None:
        """Say so where the launcher says nothing: it may be stopped."""
        self._loop.after(_LATE, self._look_again)
        if time.monotonic() - self._heard >= _LATE:
            self._draw()

    def _draw(self) -> None:
        if self._snapshot is not None:
            columns, rows = self._screen.size
            snapshot = {**head(self._record, time.time()), **self._snapshot}
            late = time.monotonic() - self._heard
            if late >= _LATE:
                snapshot["no_news"] = round(late)
            lines = self._painter.paint(snapshot, columns, rows)
            self._screen.draw([text for text, _ in lines])

    def _read_key(self) -> None:
        assert self._keys is not None
        data = os.read(self._keys, 64)
        if not data:
            self._loop.unwatch(self._keys, READ)
        if any(key in data for key in _LEAVE):
            self._leave()

    def _leave(self) -> None:
        self._left = True
        self._loop.stop()

    def _step_aside(self) -> None:
        """Ctrl-Z: the shell gets its screen back until we are called again."""
        self._screen.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._screen.enter()
        self._draw()
