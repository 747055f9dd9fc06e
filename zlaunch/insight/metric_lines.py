"""Finds, in all that a rank writes, the pieces of text that may tell a metric: cheap where none is.

Every byte of output passes here. A piece ends with a line or with a carriage return, so the states
of a progress bar, which no newline ends, are pieces too; of the unfinished last one a bar that
looks complete is taken at once, since the next state may be long in coming.
"""

from __future__ import annotations

_LONGEST = 4096  # bytes of a piece that are kept


def maybe_metrics(chunk: bytes) -> bool:
    """Say cheaply whether there can be a metric: a loss, a bar of tqdm, a number of steps.

    What begins with a character that is not there at all is found missing fifty times faster.
    """
    return (
        b"loss" in chunk
        or (b"%" in chunk and b"%|" in chunk)
        or (b"L" in chunk and (b"Loss" in chunk or b"LOSS" in chunk))
        or b"optimization steps = " in chunk
    )


class MetricLines:
    """The output of one rank, chunk by chunk; holds its unfinished piece."""

    def __init__(self) -> None:
        self._tail = b""
        self._taken = b""  # of the unfinished piece, what was taken already

    def feed(self, data: bytes, most: int) -> list[bytes]:
        """Take what the rank wrote; return the last `most` pieces that may tell a metric, in order.

        One at least, where there is any.
        """
        if self._tail:
            data = self._tail + data
        cut = data.rfind(b"\n") + 1
        cut = max(cut, data.rfind(b"\r", cut) + 1)
        self._tail = data[max(cut, len(data) - _LONGEST) :]
        if not maybe_metrics(data):
            self._taken = self._taken if not cut else b""
            return []
        pieces = _newest(data[:cut], most)
        if pieces and pieces[0].rstrip() == self._taken:
            del pieces[0]
        bar = self._tail.rstrip(b" ")
        if b"%|" in bar and bar.endswith(b"]"):
            if bar != self._taken or cut:
                pieces.append(bar)
            self._taken = bar
        elif cut:
            self._taken = b""
        return pieces[-max(1, most) :]

    def finish(self) -> list[bytes]:
        """Return the last piece, which nothing ended, where it may tell one."""
        tail, self._tail = self._tail, b""
        return [tail] if maybe_metrics(tail) and tail.rstrip(b" ") != self._taken else []


def _newest(chunk: bytes, most: int) -> list[bytes]:
    if b"\r" in chunk:
        chunk = chunk.replace(b"\r", b"\n")
    found: list[bytes] = []
    for piece in reversed(chunk.split(b"\n")):
        if maybe_metrics(piece):
            found.append(piece)
            if len(found) >= most:
                break
    return found[::-1]
