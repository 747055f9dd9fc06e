"""Our terminal in raw mode: every key is a byte, and nothing is made of what is written to it."""

from __future__ import annotations

import os
import signal
import termios
from contextlib import suppress
from typing import Any

from zlaunch.system.source import in_foreground

# Where termios keeps what; not in the standard library of Python 3.10 by name.
_IFLAG, _OFLAG, _CFLAG, _LFLAG, _CC = 0, 1, 2, 3, 6
_NO_KEY = b"\0"  # _POSIX_VDISABLE


class RawMode:
    r"""Raw but for Ctrl-\, which stays the signal QUIT to us: a way out that no rank can take."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before: list[Any] | None = None
        self._size = (24, 80)

    @property
    def on(self) -> bool:
        """Whether the terminal is in raw mode, as far as it is ours."""
        return self._before is not None

    def enter(self) -> bool:
        """Go into raw mode; False while another job has the terminal, or it is gone."""
        if not in_foreground(self._fd):
            return False
        try:
            mode = termios.tcgetattr(self._fd)
        except termios.error:
            return False
        if self._before is None:
            self._before = mode
        _set(self._fd, _raw(mode))
        return True

    def leave(self) -> None:
        """Put back what was there, unless another job has the terminal now and its own modes."""
        before, self._before = self._before, None
        if before is not None and in_foreground(self._fd):
            _set(self._fd, before)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns; of a terminal that is gone those that it had."""
        with suppress(OSError):
            size = os.get_terminal_size(self._fd)
            self._size = size.lines, size.columns
        return self._size


def _raw(mode: list[Any]) -> list[Any]:
    keys = [*mode[_CC]]
    for key in (termios.VINTR, termios.VSUSP):
        keys[key] = _NO_KEY
    keys[termios.VMIN], keys[termios.VTIME] = 1, 0
    made_of_input = termios.BRKINT | termios.ICRNL | termios.INLCR | termios.IGNCR
    checked = termios.INPCK | termios.ISTRIP | termios.IXON | termios.IXOFF
    raw = [*mode]
    raw[_IFLAG] = mode[_IFLAG] & ~(made_of_input | checked)
    raw[_OFLAG] = mode[_OFLAG] & ~termios.OPOST
    raw[_CFLAG] = mode[_CFLAG] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    raw[_LFLAG] = mode[_LFLAG] & ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    raw[_LFLAG] |= termios.ISIG | termios.NOFLSH
    raw[_CC] = keys
    return raw


def _set(fd: int, mode: list[Any]) -> None:
    """Set it, even where we come into the background just now: that would stop us."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        termios.tcsetattr(fd, termios.TCSANOW, mode)
    except termios.error:  # the terminal is gone
        return
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
