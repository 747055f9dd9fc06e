"""Reads a descriptor that others share, the launcher's stdin, without ever waiting for it."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable

from zlaunch.system.loop import READ, Loop, Timer

LOOK_AGAIN = 0.5  # seconds; the system does not tell when a job comes to the foreground


class Source:
    """Bytes from a pipe, a file or a terminal.

    Each `ask` is answered once: `on_data` gets up to so many bytes, b"" at the end. A
    terminal at which another job is in the foreground gives nothing for now: to read from it
    would stop us.
    """

    def __init__(self, loop: Loop, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._on_data = on_data
        self._fd, self._waits = _reopened(fd)
        self._asked = 0
        self._timer: Timer | None = None

    def ask(self, size: int) -> None:
        """Have `on_data` called once there is something; with `size` bytes at most."""
        self._asked = size
        if self._waits:
            self._loop.watch(self._fd, READ, self._read)
        elif self._timer is None:
            self._timer = self._loop.after(0.0, self._read)

    def leave(self) -> None:
        """Read no more until asked again."""
        self._loop.unwatch(self._fd, READ)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Let go of the descriptor, which stays open for others."""
        self.leave()
        os.close(self._fd)

    def _read(self) -> None:
        self.leave()
        if not in_foreground(self._fd):
            self._timer = self._loop.after(LOOK_AGAIN, lambda: self.ask(self._asked))
            return
        data = self._read_now()
        if data is None:
            self.ask(self._asked)
        else:
            self._on_data(data)

    def _read_now(self) -> bytes | None:
        """Read what is there; None for nothing. What cannot be read is at its end."""
        # Should we come into the background just now, the answer is to be an error, not a stop.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN})
        try:
            return os.read(self._fd, self._asked)
        except BlockingIOError:
            return None
        except OSError:
            return b"" if in_foreground(self._fd) else None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def in_foreground(fd: int) -> bool:
    """Whether nobody else is in front of the terminal `fd`, if it is one of ours at all."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # no terminal, or one that is not ours to share
        return True


def _reopened(fd: int) -> tuple[int, bool]:
    """Open the file behind `fd` anew, so that not to block is our flag alone.

    And say whether it is one that is waited for: a regular file always answers, and no selector
    takes it. Its place in the file stays the one that others share.
    """
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)):
        return os.dup(fd), False
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), True
    except OSError:  # a socket, or a terminal of another user
        return os.dup(fd), True
