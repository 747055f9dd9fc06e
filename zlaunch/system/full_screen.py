"""A terminal whose whole screen is ours for a while, and given back as it was."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from zlaunch.system.source import in_foreground

_ENTER = b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"  # the other screen, no cursor, empty
_LEAVE = b"\x1b[?25h\x1b[?1049l"
_LFLAG, _CC = 3, 6  # where termios keeps what


class FullScreen:
    """Draws on `out`; keys are read from `keys`, where that is a terminal, without echo."""

    def __init__(self, out: int, keys: int | None) -> None:
        self._out = out
        self._keys = keys
        self._mode: list[Any] | None = None
        self.on = False

    def enter(self) -> None:
        """Take the screen."""
        if self._keys is not None and in_foreground(self._keys):
            with suppress(termios.error):
                self._mode = termios.tcgetattr(self._keys)
                mode = [*self._mode]
                mode[_LFLAG] &= ~(termios.ECHO | termios.ICANON)  # Ctrl-C and Ctrl-Z stay signals
                mode[_CC] = [*mode[_CC]]
                mode[_CC][termios.VMIN], mode[_CC][termios.VTIME] = 1, 0
                termios.tcsetattr(self._keys, termios.TCSANOW, mode)
        self.on = True
        self._write(_ENTER)

    def leave(self) -> None:
        """Give the screen back, and the terminal its mode."""
        if not self.on:
            return
        self.on = False
        self._write(_LEAVE)
        mode, self._mode = self._mode, None
        if mode is not None and self._keys is not None:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSANOW, mode)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        with suppress(OSError):
            size = os.get_terminal_size(self._out)
            if size.columns and size.lines:
                return size.columns, size.lines
        return 80, 24

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, and nothing else."""
        if self.on:
            text = "\r\n".join(f"{line}\x1b[K" for line in lines)
            self._write(b"\x1b[H\x1b[?7l" + text.encode(errors="replace") + b"\x1b[?7h\x1b[J")

    def _write(self, data: bytes) -> None:
        """All of it: nobody waits for us meanwhile. A terminal that is gone takes nothing."""
        with suppress(OSError):
            while data:
                data = data[os.write(self._out, data) :]
