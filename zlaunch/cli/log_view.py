"""Where showing the logs of a run begins, and the showing itself, live or not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field

from zlaunch.cli.log_choice import Choice
from zlaunch.cli.log_printer import Counter, Printer
from zlaunch.cli.one_run import say
from zlaunch.frozen import frozen
from zlaunch.system.arrivals import known_from, offsets_since
from zlaunch.system.follow import Follower
from zlaunch.system.merge import MergingFollower
from zlaunch.system.rank_log import RankLogReader
from zlaunch.system.rundir import RunDir
from zlaunch.system.tail import line_end, line_start, log_bounds

_WINDOW = 256 << 10  # bytes


@frozen
class Begin:
    """Attempt and offset of each rank; `skip` lines that are wanted are left out first."""

    attempts: Mapping[int, int]
    offsets: Mapping[int, int]
    skip: Mapping[int, int] = field(default_factory=dict)


def find_begin(run: RunDir, choice: Choice, count: int | None, *, follow: bool) -> Begin:
    """Where to begin so that `count` lines of each rank are shown that are there by now.

    None: all of them. Without a time that is chosen, counted lines are of the last attempt.
    """
    since = _since(run, choice)
    attempts: dict[int, int] = {}
    offsets: dict[int, int] = {}
    skip: dict[int, int] = {}
    for rank in choice.ranks:
        last = run.last_attempt(rank)
        if choice.since is None:
            attempt, first = (0, 0) if count is None else (last, 0)
        else:
            attempt, first = since.get(rank) or (last, _end(run, rank, last, follow=follow))
        if count is not None:
            if attempt != last:
                attempt, first = last, 0
            end = _end(run, rank, last, follow=follow)
            first, skip[rank] = _last(run, choice, rank, last, first, end, count, follow=follow)
        attempts[rank], offsets[rank] = attempt, first
    return Begin(attempts, offsets, skip)


def from_the_end(run: RunDir, choice: Choice) -> Begin:
    """Where the last whole line of each rank ends by now."""
    return find_begin(run, choice, 0, follow=True)


def _since(run: RunDir, choice: Choice) -> dict[int, tuple[int, int]]:
    """Where each rank was at that time, back to the beginning of the line."""
    if choice.since is None:
        return {}
    known = known_from(run)
    if choice.since < known:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(known))
        say(f"when lines came is known from {when} on only; what came before is not shown")
    found = offsets_since(run, choice.since, choice.ranks)
    return {
        rank: (attempt, line_start(run, rank, attempt, offset, 1) if offset else 0)
        if not _at_line(run, rank, attempt, offset)
        else (attempt, offset)
        for rank, (attempt, offset) in found.items()
    }


def _at_line(run: RunDir, rank: int, attempt: int, offset: int) -> bool:
    reader = RankLogReader(run, rank, attempt, max(0, offset - 1))
    try:
        return offset == 0 or bool(reader.lost) or reader.read(1) == b"\n"
    finally:
        reader.close()


def _end(run: RunDir, rank: int, attempt: int, *, follow: bool) -> int:
    """Where what is there by now ends; an unfinished line is left to who follows."""
    return line_end(run, rank, attempt) if follow else log_bounds(run, rank, attempt)[1]


def _last(
    run: RunDir,
    choice: Choice,
    rank: int,
    attempt: int,
    first: int,
    end: int,
    count: int,
    *,
    follow: bool,
) -> tuple[int, int]:
    """An offset from `first` on, and the number of wanted lines before the last `count`."""
    first = max(first, log_bounds(run, rank, attempt)[0])
    if count == 0 or choice.filter() is None:
        return max(first, line_start(run, rank, attempt, end, count)), 0
    window = _WINDOW
    while True:
        begin = max(first, end - window)
        if begin > first:
            begin = max(first, line_start(run, rank, attempt, begin, 1))
        found = _count(run, choice, rank, attempt, begin, end, follow=follow)
        if found >= count or begin == first:
            return begin, max(0, found - count)
        window *= 4


def _count(
    run: RunDir, choice: Choice, rank: int, attempt: int, begin: int, end: int, *, follow: bool
) -> int:
    counter, reader = Counter(choice), RankLogReader(run, rank, attempt, begin)
    try:
        while reader.offset < end and (data := reader.read(min(_WINDOW, end - reader.offset))):
            counter.take(data)
    finally:
        reader.close()
    if not follow:
        counter.finish()
    return counter.count


def show_logs(
    run: RunDir,
    choice: Choice,
    begin: Begin,
    *,
    follow: bool,
    begun: Callable[[], None] = lambda: None,
) -> None:
    """Show the logs from there on; to the end of the run where it is to be followed.

    `begun` is called when all is ready.
    """
    printer = Printer(run, choice, begin.skip)
    kind = MergingFollower if choice.merge else Follower
    follower = kind(run, begin.offsets, printer.take, begin.attempts, printer.lose)
    begun()
    try:
        if follow:
            follower.follow(printer.flush)
        elif choice.merge:
            follower.read_new()
        else:
            for rank in choice.ranks:
                follower.read_rank(rank)
                printer.finish([rank])
    finally:
        follower.close()
    printer.finish()
