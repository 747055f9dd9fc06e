"""Somebody who has connected to this process: heard and answered from the loop, not waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from zlaunch.system.loop import READ, Loop, read_chunk
from zlaunch.system.stream import OutStream

_CHUNK = 64 << 10


class Visitor:
    """One connection, which is closed after `patience` seconds unless `stay` was called.

    `on_data` is called with what was said, and with nothing once no more will be; `on_drained` when
    all that was written to `out` has gone; `on_close` once.
    """

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        patience: float,
        on_data: Callable[[bytes], None],
        on_drained: Callable[[], None],
        on_close: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._on_data = on_data
        self._on_close = on_close
        self._fd = connection.fileno()
        self.is_open = True
        os.set_blocking(self._fd, False)
        self.out = OutStream(loop, self._fd, on_drained=on_drained)
        self._timer = loop.after(patience, self.close)
        self.listen()

    def listen(self) -> None:
        """Hear what is said, from now on."""
        self._loop.watch(self._fd, READ, self._read)

    def ignore(self) -> None:
        """Hear no more for now."""
        self._loop.unwatch(self._fd, READ)

    def _read(self) -> None:
        data = read_chunk(self._fd, _CHUNK)
        if data is not None:
            self._on_data(data)

    def stay(self) -> None:
        """Stay for as long as the other end does."""
        self._timer.cancel()

    def end_of_answer(self) -> None:
        """Tell the other end that no more comes; raises OSError where it has gone."""
        self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Hang up."""
        if not self.is_open:
            return
        self.is_open = False
        self._timer.cancel()
        self.out.close()
        self._loop.unwatch(self._fd, READ)
        self._connection.close()
        self._on_close()
