"""Cuts what a rank writes, chunk by chunk, into lines for a screen.

The files keep every byte; this is only about what a person sees: whole lines, the newest
state of a progress bar, and not ten megabytes of one line.
"""

from __future__ import annotations

import re

LONGEST = 64 << 10  # bytes of a line; what is longer is shown cut
_SHOWN = 4 << 10  # bytes shown of a line that is cut
# Cursor movements, titles, other character sets and whatever else begins with an escape would
# garble a screen that several ranks share; only colours pass. A string that a sequence opens
# ends with its line at the latest.
_ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?"
)
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
_CONTROLS = bytes(sorted({*range(32), 127} - set(b"\a\b\t\n\r\x1b")))
_CONTROL = re.compile(rb"[" + re.escape(_CONTROLS) + rb"]|\xc2[\x80-\x9f]")
# A line that moves the cursor up again was written below another one: nested progress bars.
_BELOW = re.compile(rb"\n([^\n]*?)\x1b\[A")
# The last lines, where they are a progress bar and nothing: the cursor may go up again.
_BAR_AT_END = re.compile(rb"[^\n]*\r[^\r\n][^\n]*\n+\Z")


class LineCutter:
    """The unfinished line of one rank; complete ones are handed on in blocks."""

    def __init__(self) -> None:
        self._moves_up = False  # whether the rank has ever moved the cursor up
        self._held = b""  # complete lines at the end that may then be written over
        self._tail = b""
        self._dropped = 0  # bytes of the unfinished line that are no longer held

    def feed(self, data: bytes) -> bytes:
        """Take `data` and return the lines that it completes, each with its newline.

        Where a rank draws nested progress bars, the last state of one is complete once
        something else follows it.
        """
        # One byte is found a hundred times as fast as three.
        if self._moves_up or (b"\x1b" in data and b"\x1b[A" in data):
            self._moves_up = True
            return self._feed_nested(data)
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._hold(self._tail + data)
            return b""
        whole = data if cut == len(data) else data[:cut]
        return self._complete(self._tail + whole if self._tail else whole, data[cut:])

    def _feed_nested(self, data: bytes) -> bytes:
        text = self._held + self._tail + data
        self._held = b""
        while b"\x1b[A" in text and (joined := _BELOW.sub(rb"\r\1", text)) != text:
            text = joined
        cut = text.rfind(b"\n") + 1
        block, rest = text[:cut], text[cut:]
        bar = _BAR_AT_END.search(block) if not rest or b"\r" in rest[:-1] or rest == b"\r" else None
        if bar is not None and bar.end() - bar.start() <= LONGEST:
            self._held, block = block[bar.start() :], block[: bar.start()]
        if not block:
            self._hold(rest)
            return b""
        return self._complete(block, rest)

    def _complete(self, block: bytes, rest: bytes) -> bytes:
        if self._dropped:
            first, _, more = block.partition(b"\n")
            block = self._cut(first) + more
        self._dropped = 0
        self._hold(rest)
        return _for_screen(block)

    def finish(self) -> bytes:
        """Return what is held, and the last line, which had no newline, as one that has."""
        held, tail = self._held, self._tail
        self._held = self._tail = b""
        if not tail and not self._dropped:
            return _for_screen(held)
        last = self._cut(tail) if self._dropped else tail + b"\n"
        self._dropped = 0
        return _for_screen(held + last)

    def unfinished(self) -> bytes:
        """What a terminal would show of the unfinished line: its newest state."""
        state = self._tail or self._held.partition(b"\n")[0]
        return _for_screen(_last_state(state)) if state else b""

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
        block = _ESCAPE.sub(_keep_colour, block)
    ascii_only = block.isascii()
    if _has_control(block) or (not ascii_only and b"\xc2" in block):
        block = _CONTROL.sub(_spell, block)
    if len(block) > LONGEST and _has_long_line(block):
        block = b"\n".join(map(_shorten, block.split(b"\n")))
    if ascii_only:
        return block
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return block.decode("utf-8", "backslashreplace").encode()
    return block


def _has_control(block: bytes) -> bool:
    """A single byte is found much faster than a set of them is deleted, save in a short text."""
    if len(block) < _SHOWN:
        return len(block.translate(None, _CONTROLS)) != len(block)
    return any(byte in block for byte in _CONTROLS)


def _has_long_line(block: bytes) -> bool:
    """Whether a line is longer than is shown, by a look at one byte in thousands."""
    at = 0
    while len(block) - at > LONGEST:
        at = block.rfind(b"\n", at, at + LONGEST + 1) + 1
        if not at:
            return True
    return False


def _keep_colour(found: re.Match[bytes]) -> bytes:
    return found[0] if _COLOUR.fullmatch(found[0]) else b""


def _spell(found: re.Match[bytes]) -> bytes:
    """Write a control character as Python does."""
    return repr(found[0].decode()).strip("'").encode()


def _shorten(line: bytes) -> bytes:
    return line if len(line) <= LONGEST else line[:_SHOWN] + _omission(len(line)).rstrip(b"\n")


def _last_state(line: bytes) -> bytes:
    """What a terminal would show of a line with carriage returns: the last text written."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]
