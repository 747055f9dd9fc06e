"""What a rank of this node reads: the launcher's stdin, or what is typed at its terminal.

Little waits here: the launcher sends no more than is known to be taken.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import partial
from typing import Callable

from zlaunch.run.messages import Event, Input, InputTaken, Resize
from zlaunch.system.loop import Loop
from zlaunch.system.stdio import Stdio, resize
from zlaunch.system.stream import OutStream

_END_OF_FILE = b"\x04"  # as typed at a terminal


@dataclass
class _Reader:
    """A rank that reads."""

    rank: int
    fd: int
    stream: OutStream
    terminal: bool
    told: int = 0  # bytes of which the launcher knows that they were taken
    ending: bool = False  # nothing comes behind what waits


class Stdins:
    """The stdin of each rank that has one."""

    def __init__(self, loop: Loop, send: Callable[[Event], None]) -> None:
        self._loop = loop
        self._send = send
        self._readers: dict[int, _Reader] = {}
        self._sizes: dict[int, Resize] = {}

    def begin(self, rank: int, stdio: Stdio) -> None:
        """A rank has been started."""
        if stdio.typing is None:
            return
        stream = OutStream(self._loop, stdio.typing, partial(self._moved, rank))
        self._readers[rank] = _Reader(rank, stdio.typing, stream, stdio.terminal)

    def take(self, order: Input) -> None:
        """Pass on what was read; a rank that has ended or reads no more gets nothing."""
        reader = self._readers.get(order.rank)
        if reader is None or reader.ending:
            return
        if not order.data and not reader.terminal:
            reader.ending = True
        reader.stream.write(order.data or (_END_OF_FILE if reader.terminal else b""))
        self._moved(order.rank)

    def _moved(self, rank: int) -> None:
        """Tell what was taken; once the rank closed its end, or all is through, close ours."""
        reader = self._readers.get(rank)
        if reader is None:
            return
        stream = reader.stream
        count, reader.told = stream.taken - reader.told, stream.taken
        if count or stream.closed:
            self._send(InputTaken(rank, count, stream.closed))
        if stream.closed or (reader.ending and not stream.pending):
            self.end(rank)

    def end(self, rank: int) -> None:
        """The rank has ended, or what it reads has."""
        reader = self._readers.pop(rank, None)
        if reader is not None:
            reader.stream.close()
            os.close(reader.fd)

    # The size of a terminal

    def resize(self, order: Resize) -> None:
        """Give a rank's terminal another size; keep it for one that is still to be started."""
        self._sizes[order.rank] = order
        reader = self._readers.get(order.rank)
        if reader is not None and reader.terminal:
            self._apply(order, reader.fd)

    def size_terminal(self, rank: int, stdio: Stdio) -> None:
        """Give a terminal its size before anybody looks at it."""
        if stdio.terminal and rank in self._sizes:
            self._apply(self._sizes[rank], stdio.reading)

    def _apply(self, order: Resize, terminal: int) -> None:
        with contextlib.suppress(OSError):  # whoever was in front of it has gone
            resize(terminal, order.rows, order.columns)
