"""Writes for a descriptor that others share, without ever waiting for its reader.

A reader that keeps up is waited for by whoever feeds the sink; one that does not is left
behind: whole lines are left out, counted, and the count is shown. The line between them is
drawn where it cannot matter to training: who prints more than 4 MiB/s for long does nothing else.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from functools import partial

from zlaunch.system.loop import Loop, Timer
from zlaunch.system.stdio import enlarge_pipe
from zlaunch.system.stream import OutStream

_FULL = 4 << 20  # bytes waiting for the reader
_PATIENCE = 0.25  # seconds in which a reader that keeps up takes _KEEPING_UP
_KEEPING_UP = 1 << 20  # bytes
_LAST_FLUSH = 2.0  # seconds without progress after which a stalled reader is given up


class Sink:
    """Takes bytes for a descriptor that others share, without ever blocking on it.

    `full` asks whoever feeds it to pause; `on_room` is called when it may go on.
    """

    def __init__(self, loop: Loop, fd: int) -> None:
        self.fd = fd
        self.is_terminal = os.isatty(fd)
        self.line_end = b"\n"
        self.trouble: str | None = None  # why a file did not take what was written
        self.on_room: Callable[[], None] = lambda: None
        self._loop = loop
        self._append: Callable[[bytes], str | None] = partial(write_all, fd)  # of a file
        self._own = _reopened(fd)
        # A regular file never waits for a reader, and no selector takes it.
        self._stream = OutStream(loop, self._own, self._drained) if self._own is not None else None
        self._behind = False  # the reader does not keep up: lines are left out
        self._left_out = 0
        self._check: Timer | None = None

    def write(self, data: bytes, *, always: bool = False) -> None:
        """Write whole lines; those that must be seen `always` are never left out."""
        if self._stream is None:
            self.trouble = self.trouble or self._append(data)
        elif self._behind and not always:
            self._left_out += data.count(b"\n")
        else:
            self._say_left_out()
            self._stream.write(data)
            if self.full and self._check is None:
                self._watch_reader()

    def append_by(self, append: Callable[[bytes], str | None]) -> None:
        """Have a file written so; `append` returns the system's word where it fails."""
        self._append = append

    @property
    def pending(self) -> int:
        """Bytes that the reader has not taken yet."""
        return self._stream.pending if self._stream is not None else 0

    @property
    def full(self) -> bool:
        """Whether more should only come once the reader has taken some."""
        return self._stream is not None and not self._behind and self._stream.pending > _FULL

    def _watch_reader(self) -> None:
        assert self._stream is not None
        taken = self._stream.taken
        self._check = self._loop.after(_PATIENCE, lambda: self._judge_reader(taken))

    def _judge_reader(self, before: int) -> None:
        """Leave a reader behind that took too little in the time it was given."""
        assert self._stream is not None
        self._check = None
        if self._stream.taken - before >= _KEEPING_UP:
            if self.full:
                self._watch_reader()
                return
        elif self._stream.pending > _FULL // 2:  # it took some, and far from all
            self._behind = True
        self.on_room()

    def _drained(self) -> None:
        """The reader has taken all that waited: say what it missed, and go on."""
        self._behind = False
        self._say_left_out()
        self.on_room()

    def _say_left_out(self) -> None:
        if self._left_out and self._stream is not None:
            count, self._left_out = self._left_out, 0
            words = f"{count:,} lines are not shown, the reader was too slow; logs have all"
            self._stream.write(f"zlaunch: {words}".encode() + self.line_end)

    def flush(self) -> None:
        """Give the reader the rest, as long as it goes on taking."""
        stream, own = self._stream, self._own
        if stream is None or own is None:
            return
        while stream.pending and select.select([], [own], [], _LAST_FLUSH)[1]:
            stream.flush()
            if not stream.pending:
                self._drained()

    def close(self) -> None:
        """Let go of the descriptor, which stays open for others."""
        if self._own is not None:
            os.set_blocking(self._own, True)  # where it could not be opened anew, it is shared
            os.close(self._own)


def _reopened(fd: int) -> int | None:
    """Open the file behind `fd` anew, so that not to block is our flag alone; None for files.

    The flag belongs to the open file, which the shell and every program on the terminal share.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISFIFO(mode):
        enlarge_pipe(fd)
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:  # a socket, or a terminal of another user
        return os.dup(fd)


def write_all(fd: int, data: bytes) -> str | None:
    """Write to a file; a full disk does not end the run: return the system's word."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        return error.strerror
    return None
