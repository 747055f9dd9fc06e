"""The launcher's terminal: ranks' lines with their tags, its own words, progress in place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from zlaunch.system.footer import Footer
from zlaunch.system.lines import LineCutter
from zlaunch.system.loop import Loop, Timer
from zlaunch.system.prompt import Prompt
from zlaunch.system.sink import Sink

if TYPE_CHECKING:
    from zlaunch.system.rundir import RunDir

_PROGRESS_EVERY = 0.1  # seconds between two states of a progress line on a terminal
_PROGRESS_EVERY_PLAIN = 10.0  # seconds between two states written as lines, per rank

_RANK_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_STYLES = {"info": "2", "warning": "1;33", "error": "1;31"}


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
        self._loop = loop
        self._out: Sink | Footer = Sink(loop, 1)
        self._err: Sink | Footer = self._out if _same_file(1, 2) else Sink(loop, 2)
        self._colour = _wants_colour(self._out.is_terminal, env)
        self._colour_err = _wants_colour(self._err.is_terminal, env)
        self._tags = {rank: _tag(rank, label, self._colour) for rank, label in labels.items()}
        self._tags_err = {
            rank: _tag(rank, label, self._colour_err) for rank, label in labels.items()
        }
        self._shown = shown
        self._cutters = {rank: LineCutter() for rank in labels}
        self._raw_rank: int | None = None
        self._prompt = Prompt(self._out.write)
        self._progress: _InPlace | ProgressLines | Prompt | _AboveFooter
        in_place = self._out.is_terminal and env.get("TERM") != "dumb"
        self._progress = _InPlace(loop, self._out) if in_place else ProgressLines(self._out.write)
        self._told_trouble = False
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
        if rank == self._raw_rank:
            self._prompt.add(data)
        return self._cutters[rank].feed(data)

    def cut_last(self, rank: int) -> bytes:
        """Return the rank's last line where it has no newline."""
        return self._cutters[rank].finish()

    def show(self, rank: int, block: bytes) -> None:
        """Show whole lines of a rank, tagged, and then its unfinished line."""
        if rank not in self._shown or rank == self._raw_rank:
            return
        tag, end = self._tags[rank], self._out.line_end
        if block:
            self._progress.hide()
            self._out.write(tag + block[:-1].replace(b"\n", end + tag) + end)
            if self._out.trouble and not self._told_trouble:
                self._told_trouble = True
                self.say(f"the output is incomplete from here on: {self._out.trouble}", "warning")
        self._progress.update(rank, tag, self._cutters[rank])

    def say(self, text: str, level: str = "info") -> None:
        """Say something of zlaunch's own, on one or more lines; level info, warning or error."""
        if self._quiet and level == "info":
            return
        self._progress.hide()
        for line in text.splitlines():
            words = f"zlaunch: {line}"
            styled = _styled(words, level) if self._colour_err else _encoded(words)
            self._err.write(styled + self._err.line_end, always=True)
        self._progress.redraw()

    def quote(self, rank: int, lines: Iterable[bytes]) -> None:
        """Show lines of a rank again, among zlaunch's own words."""
        self._progress.hide()
        tag, end = self._tags_err[rank], self._err.line_end
        self._err.write(b"".join(tag + line + end for line in lines), always=True)

    def keep_newest(self, run: RunDir, most: int) -> None:
        """Keep `most` bytes at most of a console that is the console.log of a run."""
        from zlaunch.system.console_log import ConsoleLog  # few leave and have a limit

        if isinstance(self._out, Sink) and self._out is self._err:
            self._out.append_by(ConsoleLog(run, most).append)

    def make_footer(self) -> Footer | None:
        """Keep a place for lines at the bottom; None without a terminal that has one.

        Before anything is shown.
        """
        if not isinstance(self._progress, _InPlace) or not isinstance(self._out, Sink):
            return None
        footer = Footer(self._loop, self._out)
        self._err = footer if self._err is self._out else self._err
        self._out, self._progress = footer, _AboveFooter(footer)
        return footer

    # One rank has the terminal

    def hand_over(self, rank: int) -> None:
        """Show what the rank writes as it is and at once; the terminal is in raw mode now."""
        if self._raw_rank is None:
            self._progress.hide()
        self._raw_rank, self._progress = rank, self._prompt
        self._prompt.in_front = True
        self._set_line_end(b"\r\n")
        self._prompt.redraw()

    def take_back(self, *, for_now: bool) -> None:
        """The terminal is in its own mode again; what is left of the rank is shown as before."""
        if for_now:
            self._prompt.step_aside()
        self._prompt.in_front = False
        self._set_line_end(b"\n")

    def _set_line_end(self, end: bytes) -> None:
        for sink in (self._out, self._err):
            if sink.is_terminal:
                sink.line_end = end

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
        self._texts: dict[int, bytes] = {}  # of ranks that have one, the newest last
        self._drawn = b""
        self._due: Timer | None = None

    def update(self, rank: int, tag: bytes, cutter: LineCutter) -> None:
        """Take over the rank's unfinished line; draw at a bounded rate."""
        state = cutter.unfinished()
        self._texts.pop(rank, None)
        if state:
            self._texts[rank] = tag + state
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
        text = next(reversed(self._texts.values()), b"")
        if text != self._drawn:
            self.hide()
            if text:
                self._out.write(b"\x1b[?7l" + text + b"\x1b[?7h")
                self._drawn = text


class _AboveFooter:
    """With a footer: the newest unfinished line of any rank stands above it."""

    def __init__(self, footer: Footer) -> None:
        self._footer = footer
        self._texts: dict[int, bytes] = {}  # of ranks that have one, the newest last

    def update(self, rank: int, tag: bytes, cutter: LineCutter) -> None:
        """Take over the rank's unfinished line."""
        state = cutter.unfinished()
        self._texts.pop(rank, None)
        if state:
            self._texts[rank] = tag + state
        self._footer.show_unfinished(next(reversed(self._texts.values()), b""))

    def hide(self) -> None:
        """Nothing is in the way."""

    def redraw(self) -> None:
        """Nothing was taken away."""


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
