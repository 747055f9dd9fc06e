"""The launcher's terminal: ranks' lines with their tags, its own words, progress in place.

A reader that keeps up is waited for; one that does not is left behind: whole lines are
left out, counted, and the count is shown. The line between them is drawn where it cannot
matter to training: who prints more than 4 MiB/s for long does nothing else.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable, Iterable, Mapping

from zlaunch.system.lines import LineCutter
from zlaunch.system.loop import Loop, Timer
from zlaunch.system.spawn import enlarge_pipe
from zlaunch.system.stream import OutStream

_FULL = 4 << 20  # bytes waiting for the reader
_PATIENCE = 0.25  # seconds in which a reader that keeps up takes _KEEPING_UP
_KEEPING_UP = 1 << 20  # bytes
_PROGRESS_EVERY = 0.1  # seconds between two states of a progress line on a terminal
_PROGRESS_EVERY_PLAIN = 10.0  # seconds between two states written as lines, per rank
_LAST_FLUSH = 2.0  # seconds without progress after which a stalled reader is given up

_RANK_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_STYLES = {"info": "2", "warning": "1;33", "error": "1;31"}


class Sink:
    """Takes bytes for a descriptor that others share, without ever blocking on it.

    `full` asks whoever feeds it to pause; `on_room` is called when it may go on.
    """

    def __init__(self, loop: Loop, fd: int) -> None:
        self.fd = fd
        self.is_terminal = os.isatty(fd)
        self.on_room: Callable[[], None] = lambda: None
        self._loop = loop
        self._own = _reopened(fd)
        # A regular file never waits for a reader, and no selector takes it.
        self._stream = OutStream(loop, self._own, self._drained) if self._own is not None else None
        self._behind = False  # the reader does not keep up: lines are left out
        self._left_out = 0
        self._check: Timer | None = None

    def write(self, data: bytes, *, always: bool = False) -> None:
        """Write whole lines; those that must be seen `always` are never left out."""
        if self._stream is None:
            _write_all(self.fd, data)
        elif self._behind and not always:
            self._left_out += data.count(b"\n")
        else:
            self._say_left_out()
            self._stream.write(data)
            if self.full and self._check is None:
                self._watch_reader()

    @property
    def full(self) -> bool:
        """Whether more should only come once the reader has taken some."""
        return self._stream is not None and not self._behind and self._stream.pending > _FULL

    def _watch_reader(self) -> None:
        assert self._stream is not None
        taken = self._stream.taken
        self._check = self._loop.after(_PATIENCE, lambda: self._judge_reader(taken))

    def _judge_reader(self, before: int) -> None:
        """Leave a reader behind that took too little in the time it was given."""
        assert self._stream is not None
        self._check = None
        if self._stream.taken - before >= _KEEPING_UP:
            if self.full:
                self._watch_reader()
                return
        elif self._stream.pending > _FULL // 2:  # it took some, and far from all
            self._behind = True
        self.on_room()

    def _drained(self) -> None:
        """The reader has taken all that waited: say what it missed, and go on."""
        self._behind = False
        self._say_left_out()
        self.on_room()

    def _say_left_out(self) -> None:
        if self._left_out and self._stream is not None:
            count, self._left_out = self._left_out, 0
            words = f"{count:,} lines are not shown, the reader was too slow; logs have all"
            self._stream.write(f"zlaunch: {words}\n".encode())

    def flush(self) -> None:
        """Give the reader the rest, as long as it goes on taking."""
        stream, own = self._stream, self._own
        if stream is None or own is None:
            return
        while stream.pending and select.select([], [own], [], _LAST_FLUSH)[1]:
            stream.flush()
            if not stream.pending:
                self._drained()

    def close(self) -> None:
        """Let go of the descriptor, which stays open for others."""
        if self._own is not None:
            os.set_blocking(self._own, True)  # where it could not be opened anew, it is shared
            os.close(self._own)


def _reopened(fd: int) -> int | None:
    """Open the file behind `fd` anew, so that not to block is our flag alone; None for files.

    The flag belongs to the open file, which the shell and every program on the terminal share.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISFIFO(mode):
        enlarge_pipe(fd)
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:  # a socket, or a terminal of another user
        return os.dup(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return  # a full disk under `> file`: the run goes on


class Console:
    """Shows the ranks' output on fd 1 and zlaunch's own words on fd 2."""

    def __init__(
        self,
        loop: Loop,
        labels: Mapping[int, str],
        shown: frozenset[int],
        env: Mapping[str, str],
        *,
        quiet: bool = False,
    ) -> None:
        """`labels` maps each rank to the text of its tag; `shown` are those whose lines appear.

        A `quiet` console says warnings and errors only.
        """
        self._quiet = quiet
        self._out = Sink(loop, 1)
        self._err = self._out if _same_file(1, 2) else Sink(loop, 2)
        self._colour = _wants_colour(self._out.is_terminal, env)
        self._colour_err = _wants_colour(self._err.is_terminal, env)
        self._tags = {rank: _tag(rank, label, self._colour) for rank, label in labels.items()}
        self._tags_err = {
            rank: _tag(rank, label, self._colour_err) for rank, label in labels.items()
        }
        self._shown = shown
        self._cutters = {rank: LineCutter() for rank in labels}
        self._progress = (
            _InPlace(loop, self._out) if self._out.is_terminal else ProgressLines(self._out.write)
        )
        self.mark = _styled("! ", "warning") if self._colour else b"! "

    @property
    def full(self) -> bool:
        """Whether ranks' output should only come once the reader has taken some."""
        return self._out.full

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back each time that more may come."""
        self._out.on_room = callback

    def cut(self, rank: int, data: bytes) -> bytes:
        """Take what a rank wrote and return the lines that are complete now."""
        return self._cutters[rank].feed(data)

    def cut_last(self, rank: int) -> bytes:
        """Return the rank's last line where it has no newline."""
        return self._cutters[rank].finish()

    def show(self, rank: int, block: bytes) -> None:
        """Show whole lines of a rank, tagged, and then its unfinished line."""
        if rank not in self._shown:
            return
        tag = self._tags[rank]
        if block:
            self._progress.hide()
            self._out.write(tag + block[:-1].replace(b"\n", b"\n" + tag) + b"\n")
        self._progress.update(rank, tag, self._cutters[rank])

    def say(self, text: str, level: str = "info") -> None:
        """Say something of zlaunch's own, on one or more lines; level info, warning or error."""
        if self._quiet and level == "info":
            return
        self._progress.hide()
        for line in text.splitlines():
            words = f"zlaunch: {line}"
            styled = _styled(words, level) if self._colour_err else _encoded(words)
            self._err.write(styled + b"\n", always=True)
        self._progress.redraw()

    def quote(self, rank: int, lines: Iterable[bytes]) -> None:
        """Show lines of a rank again, among zlaunch's own words."""
        self._progress.hide()
        tag = self._tags_err[rank]
        self._err.write(b"".join(tag + line + b"\n" for line in lines), always=True)

    def close(self) -> None:
        """Show what is still waiting, as long as the reader takes it."""
        self._progress.hide()
        for sink in {self._out, self._err}:
            sink.flush()
            sink.close()


def _tag(rank: int, label: str, colour: bool) -> bytes:
    if not colour:
        return _encoded(f"{label} | ")
    return _encoded(f"\x1b[{_RANK_COLOURS[rank % len(_RANK_COLOURS)]}m{label} |\x1b[0m ")


def _styled(text: str, level: str) -> bytes:
    return _encoded(f"\x1b[{_STYLES[level]}m{text}\x1b[0m")


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


class _InPlace:
    """On a terminal: one line at the bottom holds the newest unfinished line of any rank."""

    def __init__(self, loop: Loop, out: Sink) -> None:
        self._loop = loop
        self._out = out
        self._rank = -1
        self._text = b""
        self._drawn = b""
        self._due: Timer | None = None

    def update(self, rank: int, tag: bytes, cutter: LineCutter) -> None:
        """Take over the rank's unfinished line; draw at a bounded rate."""
        state = cutter.unfinished()
        if state:
            self._rank, self._text = rank, tag + state
        elif rank == self._rank:
            self._text = b""
        if self._due is None:
            self.redraw()
            self._due = self._loop.after(_PROGRESS_EVERY, self._draw_due)

    def _draw_due(self) -> None:
        self._due = None
        self.redraw()

    def hide(self) -> None:
        """Take the line off the screen before something else is written."""
        if self._drawn:
            self._out.write(b"\r\x1b[K")
            self._drawn = b""

    def redraw(self) -> None:
        """Draw the newest state; without wrapping, or it could not be taken off again."""
        if self._text != self._drawn:
            self.hide()
            if self._text:
                self._out.write(b"\x1b[?7l" + self._text + b"\x1b[?7h")
                self._drawn = self._text


class ProgressLines:
    """Without a terminal: a state of a progress bar now and then, as a line of its own."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._next: dict[int, float] = {}

    def update(self, rank: int, tag: bytes, cutter: LineCutter) -> None:
        """Write the newest state if the last one was long ago."""
        if cutter.in_progress and time.monotonic() >= self._next.get(rank, 0.0):
            self._next[rank] = time.monotonic() + _PROGRESS_EVERY_PLAIN
            self._write(tag + cutter.unfinished() + b"\n")

    def hide(self) -> None:
        """Nothing is in the way."""

    def redraw(self) -> None:
        """Nothing was taken away."""


def _same_file(one: int, other: int) -> bool:
    first, second = os.fstat(one), os.fstat(other)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _wants_colour(is_terminal: bool, env: Mapping[str, str]) -> bool:
    """NO_COLOR (no-color.org) wins, then FORCE_COLOR, then whether it is a terminal."""
    if env.get("NO_COLOR"):
        return False
    return bool(env.get("FORCE_COLOR")) or (is_terminal and env.get("TERM") != "dumb")
