"""Cuts what a rank writes, chunk by chunk, into lines for a screen.

The files keep every byte; this is only about what a person sees: whole lines, the newest
state of a progress bar, and not ten megabytes of one line.
"""

from __future__ import annotations

import re

LONGEST = 64 << 10  # bytes of a line; what is longer is shown cut
_SHOWN = 4 << 10  # bytes shown of a line that is cut
# Cursor movements, window titles and the like would garble a screen that several ranks
# share; colours (m) pass.
_CONTROL = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*(?!m)[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[()][0-9A-B]|[=>78cM])"
)


class LineCutter:
    """The unfinished line of one rank; complete ones are handed on in blocks."""

    def __init__(self) -> None:
        self._tail = b""
        self._dropped = 0  # bytes of the unfinished line that are no longer held

    def feed(self, data: bytes) -> bytes:
        """Take `data` and return the lines that it completes, each with its newline."""
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._hold(self._tail + data)
            return b""
        block = self._tail + data[:cut]
        if self._dropped:
            first, _, rest = block.partition(b"\n")
            block = self._cut(first) + rest
        self._dropped = 0
        self._hold(data[cut:])
        return _for_screen(block)

    def finish(self) -> bytes:
        """Return the last line, which had no newline, as one that has."""
        tail, self._tail = self._tail, b""
        if not tail and not self._dropped:
            return b""
        block = self._cut(tail) if self._dropped else tail + b"\n"
        self._dropped = 0
        return _for_screen(block)

    def unfinished(self) -> bytes:
        """What a terminal would show of the unfinished line: its newest state."""
        return _for_screen(_last_state(self._tail)) if self._tail else b""

    @property
    def in_progress(self) -> bool:
        """Whether the unfinished line has been written over: a progress bar, not a prompt."""
        return b"\r" in self._tail[:-1]  # the last one may be half of a \r\n

    def _hold(self, tail: bytes) -> None:
        if len(tail) > LONGEST:
            newest = tail.rstrip(b"\r").rfind(b"\r")
            if newest >= 0 and len(tail) - newest <= LONGEST:
                tail = tail[newest:]  # without the older states of a progress bar
            else:
                self._dropped += len(tail) - _SHOWN
                tail = tail[:_SHOWN]
        self._tail = tail

    def _cut(self, line: bytes) -> bytes:
        return line[:_SHOWN] + _omission(len(line) + self._dropped)


def _omission(size: int) -> bytes:
    return f" ... [a line of {size:,} bytes; whole in the log]\n".encode()


def _for_screen(block: bytes) -> bytes:
    """Make whole lines fit to be shown; ordinary text passes as it is, at the cost of a look."""
    if b"\r" in block:
        block = b"\n".join(map(_last_state, block.split(b"\n")))
    if b"\x1b" in block:
        block = _CONTROL.sub(b"", block)
    if len(block) > LONGEST:
        lines = block.split(b"\n")
        if max(map(len, lines)) > LONGEST:
            block = b"\n".join(map(_shorten, lines))
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return block.decode("utf-8", "backslashreplace").encode()
    return block


def _shorten(line: bytes) -> bytes:
    return line if len(line) <= LONGEST else line[:_SHOWN] + _omission(len(line)).rstrip(b"\n")


def _last_state(line: bytes) -> bytes:
    """What a terminal would show of a line with carriage returns: the last text written."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]
