"""`--live`: the ranks below what they print; without a terminal their progress now and then."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from zlaunch.launcher.view import Snapshot, View
from zlaunch.system.console import Console
from zlaunch.system.footer import Footer, Painted
from zlaunch.system.loop import Loop

_PLAIN_EVERY = 30.0  # seconds

Paint = Callable[[Snapshot, int, int], Painted]


class Live:
    """Shows snapshots at the bottom of the console.

    `paint` makes lines of one for so many columns and rows; `words` a few words, or none.
    """

    def __init__(
        self,
        loop: Loop,
        console: Console,
        view: View,
        paint: Callable[[], Paint],
        words: Callable[[Snapshot], str],
    ) -> None:
        self._console = console
        self._words = words
        self._said = ""
        self._next = time.monotonic() + _PLAIN_EVERY
        self._footer = console.make_footer()
        self._snapshot: Snapshot | None = None
        if self._footer is None:
            view.follow(self._say)
            return
        self._paint = paint()  # which imports what it takes
        loop.on_signal([signal.SIGWINCH], lambda _: self._redraw())
        loop.on_signal([signal.SIGCONT], lambda _: self._begin_anew())
        view.look(self._show)

    def _say(self, snapshot: Snapshot) -> None:
        if time.monotonic() >= self._next:
            words = self._words(snapshot)
            if words and words != self._said:
                self._said = words
                self._next = time.monotonic() + _PLAIN_EVERY
                self._console.say(words)

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._redraw()

    def _redraw(self) -> None:
        if self._snapshot is None or self._footer is None:
            return
        try:
            lines = _lines(self._footer, self._paint, self._snapshot)
        except Exception as error:  # the training is worth more than its picture
            self._footer.show([])
            self._footer = None
            what = f"{type(error).__name__}: {error}"
            self._console.say(f"--live cannot go on ({what}); the run does", "warning")
            return
        self._footer.show(lines)

    def _begin_anew(self) -> None:
        if self._footer is not None:
            self._footer.begin_anew()


def _lines(footer: Footer, paint: Paint, snapshot: Snapshot) -> Painted:
    """A rule, and the view in less than half of the screen."""
    columns, rows = footer.size
    lines = paint(snapshot, columns - 1, max(1, rows // 2 - 1))
    width = max((width for _, width in lines), default=0)
    return [("\x1b[2m" + "-" * width, width), *lines]
