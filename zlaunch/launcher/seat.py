"""The place in front of our terminal, which one rank has while it runs (--debug)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from zlaunch.run.messages import Resize
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop, Timer
from zlaunch.system.source import LOOK_AGAIN
from zlaunch.system.terminal import RawMode

_HEARD = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)


class Seat:
    """Our terminal in raw mode and the screen without tags, from `sit_down` to `stand_up`.

    `on_resize` is called when the window has another size.
    """

    def __init__(self, loop: Loop, console: Console, rank: int) -> None:
        self.on_resize: Callable[[], None] = lambda: None
        self._loop = loop
        self._console = console
        self._rank = rank
        self._mode = RawMode(0)
        self._taken = False
        self._timer: Timer | None = None
        heard = [s for s in _HEARD if signal.getsignal(s) is not signal.SIG_IGN]
        self._before = {signum: signal.getsignal(signum) for signum in heard}
        loop.on_signal(heard, self._hear)

    @property
    def size(self) -> Resize:
        """The window's size, for the rank's terminal."""
        return Resize(self._rank, *self._mode.size)

    def sit_down(self) -> None:
        """Give the terminal to the rank; while another job has it, that is for later."""
        self._taken = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._mode.enter():
            self._console.hand_over(self._rank)
        else:
            self._timer = self._loop.after(LOOK_AGAIN, self.sit_down)

    def stand_up(self) -> None:
        """Take it back."""
        self._taken = False
        if self._timer is not None:
            self._timer.cancel()
        self._take_back()

    def _take_back(self, *, for_now: bool = False) -> None:
        if self._mode.on:
            self._console.take_back(for_now=for_now)
            self._mode.leave()

    def _hear(self, signum: int) -> None:
        if signum == signal.SIGWINCH:
            self.on_resize()
        elif signum == signal.SIGTSTP:
            self._pause()
        elif self._taken:  # whoever held us may have left the terminal in another mode
            self.sit_down()
            self.on_resize()

    def _pause(self) -> None:
        """Be stopped, as anybody would be, with the terminal as it was."""
        self._take_back(for_now=True)
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)
        if self._taken:
            self.sit_down()

    def close(self) -> None:
        """Let signals mean what they did before."""
        for signum, meaning in self._before.items():
            signal.signal(signum, meaning)
