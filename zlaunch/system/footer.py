"""Lines that stay at the bottom of a terminal while others scroll above them.

What is written to it is shown within a moment, together with the lines anew and in one write: so
the lines neither flicker nor cost much where ranks print a lot. They are drawn only where the
terminal has taken all before, and nothing waits for them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from zlaunch.system.loop import Loop, Timer
from zlaunch.system.sink import Sink
from zlaunch.system.source import in_foreground

_EVERY = 0.05  # seconds between two writes
_MOST = 128 << 10  # bytes that may wait for the next one
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")

Painted = Sequence[tuple[str, int]]  # lines with their escapes, and how wide they are


class Footer:
    """A sink whose terminal has a footer."""

    def __init__(self, loop: Loop, sink: Sink) -> None:
        self.is_terminal = sink.is_terminal
        self._loop = loop
        self._sink = sink
        self._lines: Painted = ()
        self._unfinished = b""
        self._drawn: list[int] = []  # how wide what stands on the screen is
        self._waiting: list[tuple[bytes, bool]] = []
        self._size = 0
        self._last = 0.0
        self._due: Timer | None = None

    # As a sink

    @property
    def full(self) -> bool:
        """Whether more should only come once the reader has taken some."""
        return self._sink.full

    @property
    def trouble(self) -> str | None:
        """Why not all was written."""
        return self._sink.trouble

    @property
    def line_end(self) -> bytes:
        """What ends a line."""
        return self._sink.line_end

    @line_end.setter
    def line_end(self, end: bytes) -> None:
        self._sink.line_end = end

    @property
    def on_room(self) -> Callable[[], None]:
        """Called when whoever was to pause may go on."""
        return self._sink.on_room

    @on_room.setter
    def on_room(self, callback: Callable[[], None]) -> None:
        self._sink.on_room = callback

    def write(self, data: bytes, *, always: bool = False) -> None:
        """Write whole lines, above the footer; those that must be seen `always` are."""
        self._waiting.append((data, always))
        self._size += len(data)
        if self._size > _MOST:
            self.draw()
        else:
            self._draw_soon()

    def flush(self) -> None:
        """Show what waits, without the footer, as long as the reader takes it."""
        self._lines, self._unfinished = (), b""
        self.draw()
        self._sink.flush()

    def close(self) -> None:
        """Let go of the descriptor."""
        if self._due is not None:
            self._due.cancel()
        self._sink.close()

    # The footer

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        with suppress(OSError):
            size = os.get_terminal_size(self._sink.fd)
            if size.columns and size.lines:
                return size.columns, size.lines
        return 80, 24

    def show(self, lines: Painted) -> None:
        """Have these lines from now on."""
        self._lines = lines
        self._draw_soon()

    def show_unfinished(self, line: bytes) -> None:
        """Have the unfinished line of a rank above them; none where it is empty."""
        self._unfinished = line
        self._draw_soon()

    def begin_anew(self) -> None:
        """Others have written on the terminal: what stands there is theirs now."""
        self._drawn = []
        self._draw_soon()

    def _draw_soon(self) -> None:
        if self._due is None:
            wait = max(0.0, self._last + _EVERY - time.monotonic())
            self._due = self._loop.after(wait, self.draw)

    def draw(self) -> None:
        """Write what waits, and the footer again below it."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._last = time.monotonic()
        columns, rows = self.size
        waiting, self._waiting, self._size = self._waiting, [], 0
        before, self._drawn = self._erased(columns), []
        if self._sink.pending:  # in their order; there is nobody to look at a footer
            for data, always in [(before, True), *waiting]:
                if data:
                    self._sink.write(data, always=always)
            return
        after = b""
        if in_foreground(self._sink.fd):
            after, self._drawn = self._painted(columns, rows)
        self._sink.write(before + b"".join(data for data, _ in waiting) + after, always=True)

    def _erased(self, columns: int) -> bytes:
        """What takes the footer off; a terminal that became narrower has broken its lines."""
        if not self._drawn:
            return b""
        height = sum(max(1, -(-width // columns)) for width in self._drawn)
        up = b"\x1b[%dA" % (height - 1) if height > 1 else b""
        return b"\r" + up + b"\x1b[J"

    def _painted(self, columns: int, rows: int) -> tuple[bytes, list[int]]:
        lines = [(text.encode(errors="replace"), width) for text, width in self._lines]
        if self._unfinished:
            width = len(_ESCAPE.sub(b"", self._unfinished).decode(errors="replace"))
            lines.insert(0, (self._unfinished, width))
        lines = lines[: max(0, rows - 1)]
        if not lines:
            return b"", []
        text = b"\x1b[0m\r\n".join(line for line, _ in lines)  # none may be broken at the edge
        return b"\x1b[?7l" + text + b"\x1b[0m\x1b[?7h", [min(w, columns) for _, w in lines]
