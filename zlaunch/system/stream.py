"""Writes to a descriptor without ever waiting for its reader.

Used by launcher and agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from itertools import islice

from zlaunch.system.loop import WRITE, Loop

_PIECES = 64  # buffers handed to one writev; the system's limit is 1024


class OutStream:
    """A queue in front of a non-blocking descriptor.

    `pending` is the number of bytes that wait, `taken` of those that the descriptor took.
    The owner decides what to do when `pending` grows; `on_drained` is called each time the
    queue has become empty. After an error of the descriptor (its reader is gone) `closed` is
    true and whatever is written vanishes.
    """

    def __init__(self, loop: Loop, fd: int, on_drained: Callable[[], None] = lambda: None) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._on_drained = on_drained
        self._queue: deque[bytes] = deque()
        self.pending = 0
        self.taken = 0
        self.closed = False

    def write(self, data: bytes) -> None:
        """Write `data`, or queue what the descriptor does not take at once."""
        if self.closed or not data:
            return
        waiting = bool(self._queue)
        self._queue.append(data)
        self.pending += len(data)
        if not waiting:
            self.flush()
            if self._queue and not self.closed:
                self._loop.watch(self._fd, WRITE, self._writable)

    def _writable(self) -> None:
        self.flush()
        if not self._queue:
            self._loop.unwatch(self._fd, WRITE)
            self._on_drained()

    def flush(self) -> None:
        """Write what the descriptor takes now."""
        while self._queue:
            pieces = list(islice(self._queue, _PIECES))
            try:
                written = os.writev(self._fd, pieces)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            self._drop(written)

    def _drop(self, written: int) -> None:
        self.pending -= written
        self.taken += written
        queue = self._queue
        while queue and written >= len(queue[0]):
            written -= len(queue.popleft())
        if written:
            queue[0] = queue[0][written:]

    def close(self) -> None:
        """Forget what waits; the descriptor itself stays open."""
        self._loop.unwatch(self._fd, WRITE)
        self._queue.clear()
        self.pending = 0
        self.closed = True
