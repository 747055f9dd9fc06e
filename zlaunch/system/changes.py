"""Tells when files of a directory change: inotify on Linux, a clock elsewhere.

The standard library has no inotify; four calls of the C library are all that is needed.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_IN_MODIFY, _IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_CREATE, _IN_DELETE = 0x2, 0x8, 0x80, 0x100, 0x200
_IN_MOVED_FROM, _IN_MOVE_SELF = 0x40, 0x800
_IN_NONBLOCK, _IN_CLOEXEC = os.O_NONBLOCK, getattr(os, "O_CLOEXEC", 0)


class Changes:
    """A descriptor that becomes readable when a file, or something in a directory, changed."""

    def __init__(
        self, paths: Sequence[str | Path], *, releases: bool = False, only_removals: bool = False
    ) -> None:
        """Start watching. With `releases` also for files that are closed or removed.

        So somebody's end is seen who held one open to write in it, however it ended. With
        `only_removals` for nothing but names that go: of files in a directory, and its own.

        Raises OSError where the system's limit of watches is reached.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE
        mask |= _IN_CLOSE_WRITE | _IN_DELETE if releases else 0
        if only_removals:  # a directory that is open is told of by the files that went first
            mask = _IN_DELETE | _IN_MOVED_FROM | _IN_MOVE_SELF
        for path in paths:
            if libc.inotify_add_watch(self.fd, os.fsencode(path), mask) < 0:
                code = ctypes.get_errno()
                os.close(self.fd)
                raise OSError(code, os.strerror(code), str(path))

    def clear(self) -> None:
        """Take the news off the descriptor; what changes from here on is news again."""
        try:
            while os.read(self.fd, 64 << 10):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Stop watching."""
        os.close(self.fd)


def can_watch() -> bool:
    """Whether this system has inotify."""
    return sys.platform.startswith("linux")
