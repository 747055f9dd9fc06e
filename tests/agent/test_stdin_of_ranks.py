"""What a real agent passes on to a worker's stdin, and what its terminal is like."""

from __future__ import annotations

import hashlib
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from test_node import WAIT, Link, py

from zlaunch.run.messages import (
    INPUT_WINDOW,
    Closed,
    Exit,
    Exited,
    Input,
    InputTaken,
    Resize,
    Stop,
)
from zlaunch.run.wire import encode
from zlaunch.spec.worker import Stdin, WorkerSpec


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link()
    yield link
    link.local.close(WAIT)
    for stream in (link.local._process.stdout, link.local._process.stderr):
        assert stream
        stream.close()


def reading(rank: int, code: str, stdin: Stdin = "pipe") -> WorkerSpec:
    return replace(py(rank, code), stdin=stdin)


def taken(link: Link, rank: int) -> int:
    return sum(e.count for e in link.events if isinstance(e, InputTaken) and e.rank == rank)


def feed(link: Link, rank: int, data: bytes) -> None:
    """Send as the launcher does: no more under way than the window."""
    sent = 0
    while sent < len(data):
        chunk = data[sent : sent + (64 << 10)]
        link.until(lambda: sent + len(chunk) - taken(link, rank) <= INPUT_WINDOW)  # noqa: B023
        send_all(link, Input(rank, chunk))
        sent += len(chunk)
    send_all(link, Input(rank, b""))


def send_all(link: Link, order: Input) -> None:
    frame = encode(order)
    while frame:
        frame = frame[os.write(link.local.outgoing, frame) :]


HASH = """
import hashlib, sys
print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())
"""


def test_every_byte_and_the_end_arrive(link: Link) -> None:
    data = bytes(range(256)) * 40_000 + b"\n\x04\x03no newline"
    link.start(reading(0, HASH), py(1, HASH))
    feed(link, 0, data)
    link.until_closed(0, 1)
    assert link.output(0).decode().strip() == hashlib.sha256(data).hexdigest()
    assert link.output(1).decode().strip() == hashlib.sha256(b"").hexdigest()
    assert taken(link, 0) == len(data)
    assert taken(link, 1) == 0


def test_a_rank_that_does_not_read_holds_nothing_up_but_its_own_input(link: Link) -> None:
    link.start(reading(0, "import time\nprint('up', flush=True)\ntime.sleep(1000)"))
    link.until_written(0, b"up\n")
    for _ in range(INPUT_WINDOW // 1024 + 300):  # even from a launcher that sends too much
        send_all(link, Input(0, b"x" * 1024))
    link.send(Stop(1000.0))
    link.until_closed(0)
    assert link.exit(0) == Exit(signal=signal.SIGTERM)
    assert taken(link, 0) <= INPUT_WINDOW + (64 << 10)


def test_a_rank_that_closes_its_stdin_is_told_of(link: Link) -> None:
    code = "import os, time\nos.close(0)\nprint('closed', flush=True)\ntime.sleep(1000)"
    link.start(reading(0, code))
    link.until_written(0, b"closed\n")
    send_all(link, Input(0, b"nobody reads this"))
    link.until(lambda: InputTaken(0, 0, closed=True) in link.events)
    send_all(link, Input(0, b"nor this"))
    send_all(link, Input(0, b""))
    link.send(Stop(1000.0))
    link.until_closed(0)


def test_input_for_a_rank_that_is_not_there_vanishes(link: Link) -> None:
    send_all(link, Input(7, b"x"))
    link.start(reading(0, "input()"))
    send_all(link, Input(0, b"x\n"))
    link.until_closed(0)
    send_all(link, Input(0, b"x\n"))
    link.start(reading(0, "print(repr(open(0).read()))"))  # another attempt
    send_all(link, Input(0, b"again"))
    send_all(link, Input(0, b""))
    link.until_written(0, b"'again'\n")


ON_TERMINAL = """
import os, signal, sys
print(os.isatty(0), os.isatty(1), os.isatty(2), os.ttyname(0) == os.ttyname(2))
print(os.tcgetpgrp(0) == os.getpid() == os.getsid(0), *os.get_terminal_size())
signal.signal(signal.SIGWINCH,
    lambda *_: os.write(1, b"now %d %d\\n" % os.get_terminal_size(0)))
print("Name? ", end="", flush=True)
print(repr(sys.stdin.readline()))
try:
    print(repr(sys.stdin.read()))
    sys.stdin.readline()
except KeyboardInterrupt:
    print("interrupted")
"""


def typed(link: Link, keys: bytes, then: bytes) -> None:
    send_all(link, Input(0, keys))
    link.until_written(0, then)


def test_a_terminal_of_its_own(link: Link) -> None:
    link.send(Resize(0, 33, 77))
    link.start(reading(0, ON_TERMINAL, "terminal"))
    link.until_written(0, b"Name? ")
    assert link.output(0) == b"True True True True\r\nTrue 77 33\r\nName? "
    typed(link, "zoé\x7fe\r".encode(), b"'zoe\\n'\r\n")
    assert b"zo\xc3\xa9\b \be\r\n" in link.output(0)  # one backspace for both bytes
    link.send(Resize(0, 40, 100))
    link.until_written(0, b"now 100 40\r\n")
    typed(link, b"to the end", b"to the end")
    typed(link, b"\n\x04", b"'to the end\\n'\r\n")
    typed(link, b"\x03", b"interrupted\r\n")
    link.until_closed(0)
    assert link.exit(0) == Exit(code=0)


def test_the_end_of_what_is_typed(link: Link) -> None:
    link.start(reading(0, "import sys\nprint(repr(sys.stdin.read()))", "terminal"))
    typed(link, b"abc\n", b"abc\r\n")
    typed(link, b"", b"'abc\\n'\r\n")
    link.until_closed(0)


def test_all_that_was_written_to_a_terminal_is_there(link: Link) -> None:
    link.start(reading(0, "print('x' * 99_999); print('last', end='')", "terminal"))
    link.until_closed(0)
    assert link.output(0) == b"x" * 99_999 + b"\r\nlast"


def test_a_grandchild_at_the_terminal_ends_with_its_rank(link: Link) -> None:
    code = """
import subprocess, sys
print(subprocess.Popen(["sleep", "1000"]).pid)
print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
"""
    link.start(reading(0, code, "terminal"))
    link.until_closed(0)
    pids = [int(line) for line in link.output(0).split()]
    assert len(pids) == 2
    link.local.close(WAIT)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_killed_agent_takes_the_rank_at_the_terminal_along(link: Link) -> None:
    link.start(reading(0, "import time\nprint('up')\ntime.sleep(1000)", "terminal"))
    link.until_written(0, b"up")
    worker = os.pidfd_open(link.pid(0))
    os.kill(link.agent, signal.SIGKILL)
    end = os.waitid(os.P_PID, link.agent, os.WEXITED | os.WNOWAIT)
    assert end is not None
    assert select.select([worker], [], [], WAIT)[0]
    os.close(worker)


def test_what_cannot_be_started_leaves_no_descriptor(link: Link) -> None:
    descriptors = f"/proc/{link.agent}/fd"
    before = len(os.listdir(descriptors))  # noqa: PTH208
    for stdin in ("pipe", "terminal"):
        link.start(WorkerSpec(0, ("/no/such/program",), {}, stdin=stdin))
    link.start(py(1, "pass"))
    link.until(lambda: bool(link.of(Closed, 1) and link.of(Exited, 1)))
    assert len(os.listdir(descriptors)) == before  # noqa: PTH208
