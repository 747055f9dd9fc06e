"""The unfinished line of the rank that has our terminal: a prompt, and what is typed behind it."""

from __future__ import annotations

import re
from collections.abc import Callable

from zlaunch.system.lines import LineCutter

_LONGEST = 4 << 10  # bytes of a line that is drawn again
# What stays on its line and asks the terminal nothing: text, colours, movements to the side. All
# that readline does is of this kind; a program that uses the whole screen draws it by itself.
_SIMPLE = re.compile(rb"(?:[^\x00-\x06\x0b-\x0c\x0e-\x1f]|\x1b\[\??[0-9;]*[CDGKPXmhl@])*")
_CLEARED = re.compile(rb".*\x1b\[[0-9;]*J", re.DOTALL)


class Prompt:
    """What one rank writes, as it is; what others say is put in above its unfinished line.

    While we are not `in_front` of the terminal that line is over once others speak.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.in_front = False
        self._write = write
        self._line = b""
        self._hidden = False

    def add(self, data: bytes) -> None:
        """Show what the rank wrote, at once."""
        self._write(data)
        self._hidden = False
        rest = data.rpartition(b"\n")[2]
        line = rest if b"\n" in data else self._line + rest
        # Of a longer line only that it has begun is known.
        self._line = _CLEARED.sub(b"", line) if len(line) <= _LONGEST else b"\x1b"

    def hide(self) -> None:
        """Make room for a line of others."""
        if not self._line or self._hidden:
            return
        if self.in_front and _SIMPLE.fullmatch(self._line):
            self._hidden = True
            self._write(b"\r\x1b[K")
        else:
            self._line = b""
            self._write(b"\r\n")

    def redraw(self) -> None:
        """Draw the line again below what others said."""
        if self._hidden:
            self._hidden = False
            self._write(self._line)

    def step_aside(self) -> None:
        """Leave the line, to be drawn again when we come back to the terminal."""
        if self._line and not self._hidden:
            self._hidden = True
            self._write(b"\r\n")

    def update(self, rank: int, tag: bytes, cutter: LineCutter) -> None:  # noqa: ARG002
        """Show whole lines of others only; a progress line would be in the way."""
        self.redraw()
