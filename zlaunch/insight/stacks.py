"""Reads Python stacks, as faulthandler and py-spy write them, and says in a few words where one is.

`in all_reduce at train.py:88`: what the user's own code called last, and from where. Frames of
the standard library and of installed packages are not the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from zlaunch.frozen import frozen
from zlaunch.insight.frame import Frame

_FAULTHANDLER_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)\b.*:$")
_MAIN_ALONE = "Stack (most recent call first):"
_FAULTHANDLER_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)$')
_PY_SPY_THREAD = re.compile(r'Thread (?:0x)?([0-9A-Fa-f]+) \(.*\)(?:: "(.*)")?$')
_PY_SPY_FRAME = re.compile(r"    (\S.*?) \((.+?)(?::(\d+))?\)$")

# Ways through which calls go that say nothing.
_TRANSPARENT = {
    *("wrapper", "wrapped", "inner", "_fn", "decorate_context", "_call_impl", "__call__", "apply"),
    *("_wrapped_call_impl", "wrapped_fn", "decorated", "log_wrapper", "_inner"),
}
# What ranks wait in for each other.
_WAITING = {
    *("all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_into_tensor", "barrier"),
    *("all_gather_object", "all_to_all", "all_to_all_single", "monitored_barrier", "broadcast"),
    *("broadcast_object_list", "gather_object", "reduce_scatter", "reduce_scatter_tensor"),
    *("scatter_object_list", "send", "recv", "isend", "irecv", "batch_isend_irecv"),
    *("init_process_group", "new_group", "destroy_process_group", "synchronize"),
}
_BACKWARD = "_engine_run_backward"


@frozen
class Thread:
    """One thread, the innermost call first."""

    ident: str
    main: bool
    frames: tuple[Frame, ...]


@frozen
class Place:
    """Where a rank is, as it is grouped: what it is in, and the user's line that led there."""

    action: str
    file: str
    line: int

    def __str__(self) -> str:
        at = f"{self.file.rpartition('/')[2]}:{self.line}" if self.line else self.file
        return f"in {self.action} at {at}" if self.action else f"at {at}"


def parse_stacks(text: str, main: str = "") -> tuple[Thread, ...]:
    """Return the threads in `text`; `main` is the number of the main thread, where it is known."""
    threads: list[Thread] = []
    head: tuple[str, bool] | None = None
    frames: list[Frame] = []

    def close() -> None:
        if head is not None:
            threads.append(Thread(head[0], head[1], tuple(frames)))
        frames.clear()

    for line in text.splitlines():
        found = _head(line, main)
        if found is not None:
            close()
            head = found
        elif (frame := _frame(line)) is not None:
            frames.append(frame)
    close()
    return tuple(threads)


def _head(line: str, main: str) -> tuple[str, bool] | None:
    if line == _MAIN_ALONE:
        return main, True
    if match := _FAULTHANDLER_THREAD.match(line):
        ident = match[1].lstrip("0")
        return ident, ident == main
    if match := _PY_SPY_THREAD.match(line):
        return match[1], match[2] == "MainThread"
    return None


def _frame(line: str) -> Frame | None:
    if match := _FAULTHANDLER_FRAME.match(line):
        return Frame(match[1], int(match[2]) if match[2].isdigit() else 0, match[3])
    if match := _PY_SPY_FRAME.match(line):
        return Frame(match[2], int(match[3] or 0), match[1])
    return None


def main_thread(threads: Iterable[Thread]) -> Thread | None:
    """Return the main thread, which is the last one where none is marked."""
    every = tuple(threads)
    marked = [thread for thread in every if thread.main]
    return (marked or every)[-1] if every else None


def place(threads: tuple[Thread, ...]) -> Place | None:
    """Return where the rank is: its main thread, and in a backward pass the thread that does it."""
    main = main_thread(threads)
    if main is None or not main.frames:
        return None
    frames = main.frames
    depth = next((i for i, frame in enumerate(frames) if frame.own), None)
    if depth is None:  # all of it is installed: the innermost call that is not torch's own
        depth = next((i for i, f in enumerate(frames) if "/torch/" not in f.file), 0)
    own, called = frames[depth], frames[:depth]
    return Place(_action(own, called, threads), own.file, own.line)


def _action(own: Frame, called: tuple[Frame, ...], threads: tuple[Thread, ...]) -> str:
    """What `own` is in: the collective, if there is one among the calls, else what it called."""
    names = [frame.function for frame in called]
    if _BACKWARD in names[:2]:
        names += [frame.function for thread in threads for frame in thread.frames[:12]]
    for name in names:
        if name in _WAITING:
            return name
    for frame in reversed(called):
        if frame.function not in _TRANSPARENT:
            return frame.function
    return "" if own.function == "<module>" else own.function


def moved(before: tuple[Thread, ...], after: tuple[Thread, ...]) -> bool:
    """Whether any thread is elsewhere now; not counting the line of the innermost call.

    A loop that turns on the spot passes over a few lines of one function.
    """
    return set(_positions(before)) != set(_positions(after))


def _positions(threads: tuple[Thread, ...]) -> Iterator[tuple[object, ...]]:
    for thread in threads:
        if thread.frames:
            inner, *outer = thread.frames
            yield (thread.ident, inner.file, inner.function, *outer)
