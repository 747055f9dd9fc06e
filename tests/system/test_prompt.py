"""What others say is put in above the prompt of the rank that has the terminal."""

from __future__ import annotations

import pytest

from zlaunch.system.prompt import Prompt


class Screen:
    def __init__(self) -> None:
        self.seen = b""
        self.prompt = Prompt(self._write)
        self.prompt.in_front = True

    def _write(self, data: bytes) -> None:
        self.seen += data

    def other(self) -> bytes:
        """What is written around a line of others."""
        self.seen = b""
        self.prompt.hide()
        self.seen += b"|"
        self.prompt.redraw()
        return self.seen


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ([b"(Pdb) "], b"(Pdb) "),
        ([b"a\r\n(Pd", b"b) ", b"p \xc3\xa9"], b"(Pdb) p \xc3\xa9"),
        ([b"(Pdb) \x1b[?2004hp x\x08\x1b[K\r\x1b[6C"], b"(Pdb) \x1b[?2004hp x\x08\x1b[K\r\x1b[6C"),
        ([b"(Pdb) old\x1b[H\x1b[2J(Pdb) "], b"(Pdb) "),  # Ctrl-L; the screen is not cleared again
        ([b"\x1b[32mIn [1]: \x1b[0m"], b"\x1b[32mIn [1]: \x1b[0m"),
    ],
)
def test_a_simple_line_is_drawn_again(written: list[bytes], line: bytes) -> None:
    screen = Screen()
    for data in written:
        screen.prompt.add(data)
    assert screen.seen == b"".join(written)
    assert screen.other() == b"\r\x1b[K|" + line
    assert screen.other() == b"\r\x1b[K|" + line


@pytest.mark.parametrize(
    "written",
    [
        b"question\x1b[6n",  # the terminal would answer once more
        b"up\x1b[A",
        b"menu\x1b[3;4H",
        b"\x1b]0;title\x07x",
        b"x" * 5000,
    ],
)
def test_another_line_is_left_where_it_is(written: bytes) -> None:
    screen = Screen()
    screen.prompt.add(written)
    assert screen.other() == b"\r\n|"
    assert screen.other() == b"|"
    screen.prompt.add(b"\n(Pdb) ")
    assert screen.other() == b"\r\x1b[K|(Pdb) "


def test_nothing_is_in_the_way_of_whole_lines() -> None:
    screen = Screen()
    screen.prompt.add(b"one\r\ntwo\r\n")
    assert screen.other() == b"|"


def test_a_long_line_that_goes_on_stays_one() -> None:
    screen = Screen()
    screen.prompt.add(b"x" * 5000)
    screen.prompt.add(b"y")
    assert screen.other() == b"\r\n|"


def test_without_the_terminal_a_line_is_over_once_others_speak() -> None:
    screen = Screen()
    screen.prompt.add(b"(Pdb) ")
    screen.prompt.in_front = False
    assert screen.other() == b"\r\n|"
    screen.prompt.add(b"the end")
    assert screen.other() == b"\r\n|"


def test_stepping_aside_and_back() -> None:
    screen = Screen()
    screen.prompt.add(b"(Pdb) p 1")
    screen.prompt.step_aside()
    screen.prompt.in_front = False
    screen.seen = b""
    screen.prompt.in_front = True
    screen.prompt.redraw()
    assert screen.seen == b"(Pdb) p 1"
