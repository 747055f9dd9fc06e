"""What a rank said last, held in memory: the disk may be full when it is needed."""

from __future__ import annotations

from collections import deque

_HELD = 32 << 10  # bytes
_LOOKED_AT = 256 << 10  # bytes of a larger block
_WIDEST = 400  # bytes of a line in one
_FEW, _MOST = 20, 80  # lines; more than few only for a traceback
_TRACEBACK = b"Traceback (most recent call last)"


class LastWords:
    """The end of what one rank wrote, in whole lines, as a screen shows them."""

    def __init__(self) -> None:
        self._blocks: deque[bytes] = deque()
        self._size = 0

    def add(self, block: bytes) -> None:
        """Take whole lines; forget those that are far back."""
        if not block:
            return
        if len(block) > _HELD:
            lines = block[-_LOOKED_AT:].split(b"\n")[-1 - _MOST : -1]
            block = b"".join(line[:_WIDEST] + b"\n" for line in lines)
        self._blocks.append(block)
        self._size += len(block)
        while self._size - len(self._blocks[0]) > _HELD:
            self._size -= len(self._blocks.popleft())

    def held(self) -> list[bytes]:
        """All lines that are still there."""
        return b"".join(self._blocks).split(b"\n")[:-1]

    def words(self) -> list[bytes]:
        """The last lines, from the beginning of the last traceback on where that is further up."""
        lines = self.held()
        start = max(0, len(lines) - _FEW)
        tracebacks = [i for i, line in enumerate(lines) if _TRACEBACK in line]
        words = lines[min(start, tracebacks[-1]) :] if tracebacks else lines[start:]
        if len(words) <= _MOST:
            return words
        half = _MOST // 2
        return [*words[:half], b"... (whole in the log)", *words[-half:]]
