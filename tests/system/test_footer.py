"""A footer below lines that scroll, on a terminal that is really emulated: by tmux."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAIT = 60.0  # seconds; far more than anything here takes

BEGIN = """
import os, sys, time
from pathlib import Path
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop
loop = Loop()
console = Console(loop, {0: "0"}, frozenset({0}), {**os.environ, "TERM": "xterm"})
footer = console.make_footer()
loop.after(600, loop.stop)  # until the terminal is closed
def show(data):
    console.show(0, console.cut(0, data))
def end():
    console.close()
    Path("ended").touch()
    time.sleep(600)
def at(name, do):
    "Do it once the test has made the file."
    def look():
        if Path(name).exists(): do()
        else: loop.after(0.02, look)
    look()
"""


class Screen:
    """A tmux of its own, with one window in which the program runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tmux.conf").write_text("set -g history-limit 100000\n")
        self._tmux = ("tmux", "-S", str(folder / "socket"), "-f", str(folder / "tmux.conf"))

    def start(self, body: str, size: tuple[int, int] = (60, 20)) -> None:
        (self.folder / "job.py").write_text(BEGIN + body + "\nloop.run()\n")
        columns, rows = size
        command = f"cd {self.folder} && PYTHONPATH={ROOT} exec {sys.executable} job.py"
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), command)

    def tmux(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def lines(self, *, past: bool = False) -> list[str]:
        """What stands on the screen, or all since the start."""
        words = ("-S", "-") if past else ()
        return self.tmux("capture-pane", "-p", *words).rstrip("\n").split("\n")

    def until(self, met: Callable[[list[str]], bool]) -> list[str]:
        deadline = time.monotonic() + WAIT
        while not met(lines := self.lines()):
            assert time.monotonic() < deadline, lines
            time.sleep(0.02)
        return lines

    def do(self, name: str) -> None:
        (self.folder / name).touch()

    def until_ended(self) -> list[str]:
        self.until(lambda _: (self.folder / "ended").exists())
        return self.lines(past=True)


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux")
    screen = Screen(tmp_path)
    yield screen
    screen.tmux("kill-server")


TWO = 'footer.show([("first", 5), ("second", 6)])\n'


def test_it_stays_below_what_scrolls_and_goes_at_the_end(screen: Screen) -> None:
    screen.start(TWO + "for i in range(200): show(b'line %d\\n' % i)\nat('go', end)")
    lines = screen.until(lambda lines: lines[-2:] == ["first", "second"])
    assert lines[-4:-2] == ["0 | line 198", "0 | line 199"]
    screen.do("go")
    assert screen.until_ended() == [f"0 | line {i}" for i in range(200)]


def test_words_and_unfinished_lines_stand_above_it(screen: Screen) -> None:
    body = "show(b'a\\n')\nconsole.say('words')\nshow(b'\\r 50%')\n"
    body += "at('go', lambda: show(b'\\r100%\\n'))"
    screen.start(TWO + body)
    screen.until(lambda lines: lines == ["0 | a", "zlaunch: words", "0 |  50%", "first", "second"])
    screen.do("go")
    screen.until(lambda lines: lines[2:] == ["0 | 100%", "first", "second"])


def test_a_new_state_takes_the_place_of_the_old_one(screen: Screen) -> None:
    more = "at('go', lambda: footer.show([('only', 4)]))\nshow(b'a\\n')"
    screen.start(TWO + more)
    screen.until(lambda lines: lines == ["0 | a", "first", "second"])
    screen.do("go")
    screen.until(lambda lines: lines == ["0 | a", "only"])


def test_a_terminal_that_becomes_narrower_breaks_its_lines_and_they_are_taken_off(
    screen: Screen,
) -> None:
    wide = 'footer.show([("w" * 50, 50), ("v" * 50, 50)])\nshow(b"a\\n")\n'
    more = "at('go', lambda: footer.show([('short', 5)]))"
    screen.start(wide + more)
    screen.until(lambda lines: lines == ["0 | a", "w" * 50, "v" * 50])
    screen.tmux("resize-window", "-x", "30", "-y", "20")
    screen.until(lambda lines: "w" * 20 in lines)
    screen.do("go")
    screen.until(lambda lines: [line for line in lines if line != "0 | a"] == ["short"])
    assert "0 | a" in screen.lines(past=True)


FLOOD = """
import signal
def tick():
    footer.show([("f%d" % time.monotonic_ns(), 20)] * 3)
    loop.after(0.01, tick)
tick()
numbers = iter(range(40))
def pump():
    for number in numbers:
        show(b"".join(b"%06d %s\\n" % (number * 1000 + line, b"x" * 40) for line in range(1000)))
        loop.after(0, pump)
        return
    at("go", end)
pump()
"""


def test_no_line_is_lost_or_torn_where_ranks_print_a_lot(screen: Screen) -> None:
    screen.start(FLOOD)
    screen.until(lambda lines: any("039999" in line for line in lines))
    screen.do("go")
    lines = screen.until_ended()
    assert lines == [f"0 | {number:06} {'x' * 40}" for number in range(40000)]


def test_without_a_terminal_there_is_none(tmp_path: Path) -> None:
    body = "show(b'a\\n'); print(footer, file=sys.stderr); console.close(); sys.exit()"
    (tmp_path / "job.py").write_text(BEGIN + body)
    done = subprocess.run(
        [sys.executable, "job.py"],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("0 | a\n", "None\n")
    assert not re.search("\x1b", done.stdout)
