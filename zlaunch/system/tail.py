"""Reads the end of a rank's log."""

from __future__ import annotations

import os

from zlaunch.system.lines import LineCutter
from zlaunch.system.rundir import RunDir

_LOOK_BACK = 256 << 10  # bytes
_TOO_LONG = b"[a line of more than 256 KiB; whole in the log]\n"


def last_lines(run: RunDir, rank: int, end: int | None = None) -> list[bytes]:
    """Read the last 256 KiB of a rank's log before byte `end`, in lines as a screen shows them."""
    data, whole = _end_of_log(run, rank, end)
    if not whole:
        data = data.partition(b"\n")[2] or _TOO_LONG
    cutter = LineCutter()
    return (cutter.feed(data) + cutter.finish()).split(b"\n")[:-1]


def line_end(run: RunDir, rank: int) -> int:
    """The offset behind the last complete line of a rank's log, in bytes."""
    try:
        size = run.log(rank).stat().st_size
    except OSError:
        return 0
    unfinished = _end_of_log(run, rank, size)[0].rpartition(b"\n")[2]
    return size - len(unfinished)


def _end_of_log(run: RunDir, rank: int, end: int | None) -> tuple[bytes, bool]:
    """The bytes before `end`, and whether they are all from the beginning."""
    try:
        with run.log(rank).open("rb") as file:
            size = file.seek(0, os.SEEK_END) if end is None else end
            start = max(0, size - _LOOK_BACK)
            return os.pread(file.fileno(), size - start, start), start == 0
    except OSError:
        return b"", True
