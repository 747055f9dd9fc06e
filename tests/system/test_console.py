"""The launcher's terminal: a program of its own, on real pipes and a real pty."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import tty
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parents[2]

PREAMBLE = """
import os, resource, sys
from zlaunch.system import console as module
from zlaunch.system.console import Console
from zlaunch.system.loop import READ, Loop
loop = Loop()
console = Console(loop, {0: "a:0", 1: "b:1"}, frozenset(SHOWN), dict(os.environ))
def show(rank, data):
    console.show(rank, console.cut(rank, data))
def end(rank):
    console.show(rank, console.cut_last(rank))
def feed(blocks, done):
    "As the launcher does: pause while the console is full, go on when there is room."
    waiting = iter(blocks)
    def pump():
        while not console.full:
            block = next(waiting, None)
            if block is None:
                console.when_room(lambda: None)
                done()
                return
            show(0, block)
    console.when_room(pump)
    loop.after(0, pump)
    loop.run()
def blocks(count):
    "Blocks of 1000 numbered lines of 75 bytes."
    for block in range(count):
        yield b"".join(b"%066d line\\n" % (block * 1000 + line) for line in range(1000))
"""
WORDS = re.compile(
    rb"zlaunch: ([\d,]+) lines are not shown, the reader was too slow; logs have all"
)


def program(body: str, shown: tuple[int, ...] = (0, 1)) -> list[str]:
    return [
        sys.executable,
        "-c",
        PREAMBLE.replace("SHOWN", repr(shown)) + body + "\nconsole.close()",
    ]


def environment(**names: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TERM": "xterm", **names}


def on_pipes(body: str, shown: tuple[int, ...] = (0, 1), **names: str) -> tuple[str, str]:
    """What arrives on stdout and stderr."""
    command, env = program(body, shown), environment(**names)
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def on_terminal(body: str, **names: str) -> str:
    """What arrives on a terminal that holds both stdout and stderr."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs, termios.TCSANOW)
    env = environment(**names)
    child = subprocess.Popen(program(body), cwd=ROOT, env=env, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            seen += chunk
    except OSError:  # how Linux tells that nobody holds the other side any more
        pass
    os.close(ours)
    assert child.wait() == 0, seen.decode()
    return seen.decode()


SOME = r"""
show(0, b"one\ntwo\nthr")
show(1, b"other\n")
console.say("first\nsecond", "warning")
show(0, b"ee\nlast")
end(0)
"""
PLAIN = "a:0 | one\na:0 | two\nb:1 | other\na:0 | three\na:0 | last\n"


def test_every_line_has_its_tag() -> None:
    assert on_pipes(SOME) == (PLAIN, "zlaunch: first\nzlaunch: second\n")


def test_colour_on_a_terminal() -> None:
    seen = on_terminal(SOME)
    assert "\x1b[36ma:0 |\x1b[0m one\n\x1b[36ma:0 |\x1b[0m two\n" in seen
    assert "\x1b[33mb:1 |\x1b[0m other\n" in seen
    assert "\x1b[1;33mzlaunch: first\x1b[0m\n\x1b[1;33mzlaunch: second\x1b[0m\n" in seen
    assert seen.index("other") < seen.index("zlaunch: first") < seen.index("three")


@pytest.mark.parametrize("names", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_on_a_terminal_that_wants_none(names: dict[str, str]) -> None:
    assert not re.search(r"\x1b\[[0-9;]*m", on_terminal(SOME, **names))


def test_colour_off_a_terminal_only_when_forced() -> None:
    assert "\x1b" not in "".join(on_pipes(SOME, NO_COLOR="1", FORCE_COLOR="1"))
    out, err = on_pipes(SOME, FORCE_COLOR="1")
    assert "\x1b[36ma:0 |\x1b[0m one\n" in out
    assert "\x1b[1;33mzlaunch: first\x1b[0m\n" in err


def test_hidden_ranks_are_quoted_when_it_matters() -> None:
    out, err = on_pipes(SOME + 'console.quote(1, [b"its", b"end"])', shown=(0,))
    assert out == PLAIN.replace("b:1 | other\n", "")
    assert err.endswith("b:1 | its\nb:1 | end\n")


def test_a_line_end_that_is_cut_in_two_makes_one_line() -> None:
    out, _ = on_pipes(r'show(0, b"x\r"); show(0, b"\ny\r"); show(0, b"\n")')
    assert out == "a:0 | x\na:0 | y\n"


def test_words_that_no_screen_can_show() -> None:
    out, err = on_pipes(r'show(0, b"\xff\n"); console.say("path \udcff")')
    assert (out, err) == ("a:0 | \\xff\n", "zlaunch: path \\udcff\n")


def test_progress_as_lines_at_a_bounded_rate() -> None:
    body = r"""
for percent in range(50):
    show(0, b"\r%d%%" % percent)
    show(1, b"prompt")
show(0, b"\r100%\n")
"""
    assert on_pipes(body)[0] == "a:0 | 0%\na:0 | 100%\n"


def test_progress_in_place_on_a_terminal() -> None:
    body = r"""
for percent in range(50):
    show(0, b"\r%d%%" % percent)
show(1, b"between\n")
show(0, b"\r100%\n")
"""
    seen = on_terminal(body, NO_COLOR="1")
    first = "\x1b[?7la:0 | 0%\x1b[?7h\r\x1b[K"
    assert seen.startswith(first)
    assert 1 <= seen.count("%\x1b[?7h\r\x1b[K") <= 40  # drawn at times, and taken off each time
    assert "b:1 | between\n" in seen
    assert seen.endswith("a:0 | 100%\n")
    assert seen.count("\n") == 2


def test_a_prompt_is_there_still_when_another_rank_has_ended_its_line() -> None:
    body = r"""
show(1, b"name? ")
show(0, b"hel")
show(0, b"lo\n")
loop.after(0.3, loop.stop)
loop.run()
"""
    seen = on_terminal(body, NO_COLOR="1")
    assert "a:0 | hello\n" in seen
    assert seen.rpartition("hello")[2].count("b:1 | name? ") == 1


def test_the_descriptor_of_others_stays_blocking() -> None:
    body = r'show(0, b"x\n"); console.say(f"{os.get_blocking(1)} {os.get_blocking(2)}")'
    assert on_pipes(body)[1] == "zlaunch: True True\n"
    assert "True True" in on_terminal(body)


def test_a_file_gets_all_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before\n")
    with log.open("ab") as file:
        body = SOME + "\nfeed(blocks(100), loop.stop)"
        subprocess.run(
            program(body), cwd=ROOT, env=environment(), stdout=file, stderr=file, check=True
        )
    lines = log.read_bytes().split(b"\n")
    assert lines[0] == b"before"
    assert len(lines) == 1 + 7 + 100_000 + 1
    assert lines[-2] == b"a:0 | %066d line" % 99_999


# Readers that do not keep up


def numbers(out: bytes) -> list[int]:
    """The numbers of all lines of rank 0; each line has to be whole."""
    lines = [line for line in out.split(b"\n")[:-1] if not line.startswith(b"zlaunch: ")]
    assert all(re.fullmatch(rb"a:0 \| \d{66} line", line) for line in lines)
    return [int(line[6:-5]) for line in lines]


def test_a_reader_that_keeps_up_loses_nothing() -> None:
    # Patience is stretched, since this machine may not let the reader run for a moment.
    body = "module._PATIENCE = 30\nfeed(blocks(400), loop.stop)"
    out = on_pipes(body)[0].encode()
    assert numbers(out) == list(range(400_000))
    assert WORDS.search(out) is None


STALL = """
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
def fed():
    print("KiB", peak() - before, file=sys.stderr, flush=True)
def last_word():
    os.read(0, 1)
    show(0, b"%066d line\\n" % 10**9)
    loop.stop()
loop.watch(0, READ, last_word)
feed(blocks(1000), fed)
"""


def read_until(stream: IO[bytes], pattern: re.Pattern[bytes]) -> bytes:
    seen = b""
    while not pattern.search(seen[-(1 << 17) :]):
        chunk = os.read(stream.fileno(), 1 << 16)
        assert chunk, "ended without a word"
        seen += chunk
    return seen


def test_a_reader_that_stalls_is_left_behind_and_told() -> None:
    """75 MB for nobody: taken without blocking, in bounded memory, and counted."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        program(STALL), cwd=ROOT, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe
    ) as child:
        assert child.stdin
        assert child.stdout
        assert child.stderr
        report = child.stderr.readline()  # comes only after all has been fed
        assert report.startswith(b"KiB")
        assert int(report.split()[1]) < 32 << 10
        out = read_until(child.stdout, WORDS)
        child.stdin.write(b"x")
        child.stdin.flush()
        out += child.stdout.read()
        assert child.wait() == 0
    missing = WORDS.search(out)
    assert missing
    got = numbers(out)
    left_out = int(missing[1].replace(b",", b""))
    assert left_out > 0
    assert got == [*range(1_000_000 - left_out), 10**9]


def test_a_reader_that_is_gone_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    body = 'feed(blocks(200), loop.stop)\nconsole.say("done")'
    command = program(body)
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"zlaunch: done\n")


def test_a_reader_that_stalls_for_good_does_not_hold_the_end_up() -> None:
    reading, writing = os.pipe()
    command = program("feed(blocks(200), loop.stop)")
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), stdout=writing, timeout=60, check=False
    )
    os.close(reading)
    os.close(writing)
    assert done.returncode == 0
