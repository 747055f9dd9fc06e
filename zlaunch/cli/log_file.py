"""Reads a log of any size into evidence, in little memory and bounded time.

A block without a word about an error is passed over, unless it is among the last. Of what is larger
than a bound the end is read, and the beginning where there is no end to be had, as of a pipe.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from dataclasses import replace
from typing import BinaryIO, Protocol

from zlaunch.insight.peer_log import MARKERS, PeerLog, Reading

_BLOCK = 1 << 20
_LONGEST = 1 << 20  # bytes of a line
_HELD = 16  # blocks at the end, of which every line is looked at
_SAMPLE = 3000  # lines
MOST = 256 << 20
"""Bytes that are read."""

_MARKERS = tuple(marker.encode() for marker in MARKERS)


class Readable(Protocol):
    """Whatever gives bytes."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes at most; none at the end."""
        ...


def read_bounded(file: BinaryIO, most: int = MOST) -> tuple[Reading, str]:
    """Read `most` bytes at most, and say which these were; "" where it was all.

    What a file grows by meanwhile is left out. Without the beginning no line has a number.
    """
    status = os.fstat(file.fileno())
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    if size is not None and size - file.tell() > most:
        file.seek(size - most)
        file.readline(_LONGEST)  # the rest of a line
        reading = replace(read_log(_Bounded(file, most)), numbers={})
        return reading, f"only the last {_describe(most)} of {_describe(size)} were read"
    bounded = _Bounded(file, most if size is None else size - file.tell())
    reading = read_log(bounded)
    endless = size is None and not bounded.left and file.read(1)
    return reading, f"only the first {_describe(most)} were read" if endless else ""


def _describe(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"


class _Bounded:
    """Reads `left` bytes at most."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self._file = file
        self.left = left

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self.left))
        self.left -= len(data)
        return data


def read_log(file: Readable) -> Reading:
    """Read to the end."""
    held: deque[tuple[int, bytes]] = deque()
    log: PeerLog | None = None
    number, rest = 1, b""
    while data := file.read(_BLOCK):
        cut = data.rfind(b"\n") + 1
        if not cut:
            rest = (rest + data)[-4 * _BLOCK :]
            continue
        block, rest = rest + data[:cut], data[cut:]
        log = log or PeerLog(_lines(block)[:_SAMPLE])
        held.append((number, block))
        number += block.count(b"\n")
        if len(held) > _HELD:
            _give(log, *held.popleft(), whole=False)
    if rest:
        held.append((number, rest))
    log = log or PeerLog(_lines(rest)[:_SAMPLE])
    for at, block in held:
        _give(log, at, block, whole=True)
    return log.read()


def _lines(block: bytes) -> list[str]:
    return block.decode("utf-8", "backslashreplace").split("\n")


def _give(log: PeerLog, number: int, block: bytes, *, whole: bool) -> None:
    if not whole and not any(marker in block for marker in _MARKERS):
        return
    lines = _lines(block)
    if lines and not lines[-1]:
        lines.pop()
    for at, line in enumerate(lines):
        log.take(number + at, line)
