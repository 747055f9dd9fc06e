"""Reads the end of a rank's log, whichever of its files that is in."""

from __future__ import annotations

from zlaunch.system.lines import LineCutter
from zlaunch.system.rank_log import RankLogReader, bounds, files_of
from zlaunch.system.rundir import RunDir

_LOOK_BACK = 256 << 10  # bytes
_TOO_LONG = b"[a line of more than 256 KiB; whole in the log]\n"


def last_lines(run: RunDir, rank: int, attempt: int = 0, end: int | None = None) -> list[bytes]:
    """Read the last 256 KiB of a rank's log before byte `end`, in lines as a screen shows them."""
    first, size = log_bounds(run, rank, attempt)
    end = size if end is None else end
    start = max(first, end - _LOOK_BACK)
    data = read_span(run, rank, attempt, start, end)
    if start > first:
        data = data.partition(b"\n")[2] or _TOO_LONG
    cutter = LineCutter()
    return (cutter.feed(data) + cutter.finish()).split(b"\n")[:-1]


def line_end(run: RunDir, rank: int, attempt: int = 0) -> int:
    """The offset behind the last complete line of a rank's log, in bytes."""
    first, size = log_bounds(run, rank, attempt)
    last = read_span(run, rank, attempt, max(first, size - _LOOK_BACK), size)
    return size - len(last.rpartition(b"\n")[2])


def line_start(run: RunDir, rank: int, attempt: int, end: int, count: int) -> int:
    """The offset at which the last `count` lines before the offset `end` begin."""
    first = log_bounds(run, rank, attempt)[0]
    if not count:
        return end
    at = end
    wanted = count + 1  # newlines: that of the line before too
    if end > first and read_span(run, rank, attempt, end - 1, end) != b"\n":
        wanted = count
    while at > first:
        begin = max(first, at - _LOOK_BACK)
        block = read_span(run, rank, attempt, begin, at)
        there = block.count(b"\n")
        if there >= wanted:
            return begin + _nth_from_behind(block, wanted) + 1
        wanted, at = wanted - there, begin
    return first


def _nth_from_behind(block: bytes, number: int) -> int:
    at = len(block)
    for _ in range(number):
        at = block.rfind(b"\n", 0, at)
    return at


def log_bounds(run: RunDir, rank: int, attempt: int) -> tuple[int, int]:
    """The offsets of the first byte that is still there, and behind the last one."""
    return bounds(files_of(run, rank, attempt))


def read_span(run: RunDir, rank: int, attempt: int, begin: int, end: int) -> bytes:
    """Read the bytes from `begin` to `end`; fewer where some have been removed."""
    return RankLogReader(run, rank, attempt, begin).read_until(end)
