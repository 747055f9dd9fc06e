"""A real agent with real workers, spoken to over its link."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from zlaunch.backends.local import LocalBackend
from zlaunch.run.messages import (
    Closed,
    Exit,
    Exited,
    Message,
    Order,
    Output,
    Ready,
    Refused,
    Signal,
    Start,
    Started,
    Stop,
)
from zlaunch.run.wire import Decoder, encode
from zlaunch.spec.worker import NodePlan, WorkerSpec

Told = TypeVar("Told", Started, Refused, Output, Exited, Closed)
WAIT = 60  # seconds, for what should take none or a second


class Link:
    """The launcher's side of a link: sends, and waits for what it is told."""

    def __init__(self) -> None:
        self.local = LocalBackend().open(3, "here")
        self._decoder = Decoder(preamble=True)
        self.events: list[Message] = []
        self.until(lambda: bool(self.events))
        self.agent = self.local._process.pid
        (ready,) = self.events
        assert isinstance(ready, Ready)
        assert (ready.node_rank, ready.pid) == (3, self.agent)
        assert ready.port > 1023

    def send(self, order: Order) -> None:
        os.write(self.local.outgoing, encode(order))

    def start(self, *workers: WorkerSpec, grace: float = WAIT, **env: str) -> None:
        self.send(Start(NodePlan(3, {"PATH": os.environ["PATH"], **env}, workers), grace))

    def until(self, met: Callable[[], bool]) -> None:
        while not met():
            assert select.select([self.local.incoming], [], [], WAIT)[0], self.events[-9:]
            data = os.read(self.local.incoming, 1 << 20)
            assert data, os.read(self.local.errors, 1 << 16).decode()
            self.events += self._decoder.feed(data)

    def of(self, kind: type[Told], rank: int) -> list[Told]:
        return [e for e in self.events if isinstance(e, kind) and e.rank == rank]

    def start_up(self, *scripts: str, grace: float = WAIT) -> None:
        self.start(*(sh(rank, script) for rank, script in enumerate(scripts)), grace=grace)
        for rank in range(len(scripts)):
            self.until_written(rank, b"up\n")

    def until_closed(self, *ranks: int) -> None:
        self.until(lambda: all(self.of(Closed, rank) for rank in ranks))

    def until_written(self, rank: int, data: bytes) -> None:
        self.until(lambda: data in self.output(rank))

    def output(self, rank: int) -> bytes:
        return b"".join(e.data for e in self.of(Output, rank))

    def exit(self, rank: int) -> Exit:
        (exited,) = self.of(Exited, rank)
        return exited.exit

    def pid(self, rank: int) -> int:
        self.until(lambda: bool(self.of(Started, rank)))
        (started,) = self.of(Started, rank)
        return started.pid


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link()
    yield link
    if link.local._process.poll() is None:
        link.send(Stop(0.0))
    link.local.close(WAIT)
    for stream in (link.local._process.stdout, link.local._process.stderr):
        assert stream
        stream.close()


class Witness:
    """Knows when a process has ended, whatever becomes of its pid."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)
        assert not select.select([self._fd], [], [], 0)[0]

    def sees_the_end(self) -> bool:
        ended = bool(select.select([self._fd], [], [], WAIT)[0])
        os.close(self._fd)
        return ended


def sh(rank: int, script: str) -> WorkerSpec:
    return WorkerSpec(rank, ("/bin/sh", "-c", script), {})


def py(rank: int, code: str) -> WorkerSpec:
    return WorkerSpec(rank, (sys.executable, "-I", "-S", "-c", code), {})


SLEEPS = "echo up; exec sleep 1000"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 1; done"


def test_two_workers_from_start_to_end(link: Link) -> None:
    link.start(
        sh(4, r"printf 'a\n\377\000b\r'; printf 'err' >&2; exit 0"),
        WorkerSpec(
            5, ("/bin/sh", "-c", 'echo "$SHARED $OWN $PWD"; exit 7'), {"OWN": "own"}, "/usr"
        ),
        SHARED="shared",
        OWN="node's",
    )
    link.until_closed(4, 5)
    assert link.output(4) == b"a\n\xff\x00b\rerr"
    assert link.output(5) == b"shared own /usr\n"
    assert (link.exit(4), link.exit(5)) == (Exit(code=0), Exit(code=7))
    for rank in (4, 5):
        kinds = [type(e) for e in link.events if getattr(e, "rank", None) == rank]
        assert kinds[0] is Started
        assert kinds[-1] is Closed
        assert kinds.count(Exited) == 1
    assert link.pid(4) != link.pid(5)


def test_what_cannot_be_started_is_refused_and_the_others_run(link: Link) -> None:
    link.start(
        WorkerSpec(0, ("/no/such/program",), {}),
        WorkerSpec(1, ("/bin/true",), {}, "/no/such/directory"),
        sh(2, "echo runs"),
    )
    link.until_closed(2)
    assert link.of(Refused, 0) == [Refused(0, "/no/such/program: No such file or directory")]
    assert link.of(Refused, 1) == [Refused(1, "/no/such/directory: No such file or directory")]
    assert link.output(2) == b"runs\n"
    assert not link.of(Closed, 0)


def test_stop_lets_a_worker_end_in_its_own_way(link: Link) -> None:
    link.start_up("trap 'echo saved; exit 5' TERM; echo up; while :; do sleep 0.1; done")
    link.send(Stop(WAIT))
    link.until_closed(0)
    assert link.output(0) == b"up\nsaved\n"
    assert link.exit(0) == Exit(code=5)


def test_who_ignores_term_is_killed_after_the_grace(link: Link) -> None:
    link.start_up(STUBBORN, SLEEPS)
    link.send(Stop(0.5))
    link.until_closed(0, 1)
    assert link.exit(0) == Exit(signal=signal.SIGKILL)
    assert link.exit(1) == Exit(signal=signal.SIGTERM)


def test_a_second_stop_may_shorten_the_grace(link: Link) -> None:
    link.start_up(STUBBORN)
    link.send(Stop(1000.0))
    link.send(Stop(0.0))
    link.until_closed(0)
    assert link.exit(0) == Exit(signal=signal.SIGKILL)


def test_a_worker_that_is_held_can_still_be_stopped(link: Link) -> None:
    link.start_up(SLEEPS)
    os.kill(link.pid(0), signal.SIGSTOP)
    link.send(Stop(1000.0))
    link.until_closed(0)
    assert link.exit(0) == Exit(signal=signal.SIGTERM)


def test_signals_are_passed_on(link: Link) -> None:
    link.start_up("trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.1; done")
    link.send(Signal(signal.SIGUSR1))
    link.until_closed(0)
    assert link.output(0) == b"up\ngot\n"


def test_a_signal_to_the_agent_stops_its_workers(link: Link) -> None:
    link.start_up(SLEEPS)
    os.kill(link.agent, signal.SIGTERM)
    link.until_closed(0)
    assert link.exit(0) == Exit(signal=signal.SIGTERM)


# Nothing is left behind


@pytest.mark.parametrize("script", [SLEEPS, "sleep 1000 & echo up; wait"])
def test_when_the_link_closes_workers_and_agent_go(link: Link, script: str) -> None:
    link.start_up(script, script)
    witnesses = [Witness(link.pid(0)), Witness(link.pid(1)), Witness(link.agent)]
    assert link.local.close(WAIT) == "exit code 0"
    assert all(witness.sees_the_end() for witness in witnesses)


def test_when_the_link_closes_the_grace_counts(link: Link) -> None:
    link.start_up(STUBBORN, grace=0.3)
    worker = Witness(link.pid(0))
    assert link.local.close(WAIT) == "exit code 0"
    assert worker.sees_the_end()


@pytest.mark.parametrize("start", ["", "setsid "])
def test_when_the_agent_is_killed_its_workers_and_theirs_go(link: Link, start: str) -> None:
    link.start(sh(0, f"{start}sleep 1000 & echo $!; wait"))
    link.until_written(0, b"\n")
    witnesses = [Witness(link.pid(0)), Witness(int(link.output(0)))]
    os.kill(link.agent, signal.SIGKILL)
    assert link.local.close(WAIT) == "signal 9"
    LocalBackend().close()
    assert all(witness.sees_the_end() for witness in witnesses)


@pytest.mark.parametrize("start", ["setsid sleep 1000", "sleep 1000"])
@pytest.mark.parametrize("pipe", ["", " >/dev/null 2>&1"], ids=["holds the pipe", "lets go"])
def test_a_grandchild_does_not_outlive_its_rank(link: Link, start: str, pipe: str) -> None:
    link.start(sh(0, f"trap 'exit 4' USR1; {start}{pipe} & echo $!; wait"))
    link.until_written(0, b"\n")
    grandchild = Witness(int(link.output(0)))
    link.send(Signal(signal.SIGUSR1))
    link.until_closed(0)
    assert link.exit(0) == Exit(code=4)
    assert grandchild.sees_the_end()


# Output is whole

FILL = """
import fcntl, os, signal
size = fcntl.fcntl(1, 1032)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.write(1, b"%d\\n" % size)
signal.sigwait({signal.SIGUSR1})
os.write(1, b"x" * size)
"""


def test_a_pipe_that_was_left_full_is_read_to_its_end(link: Link) -> None:
    """The agent is held while the worker fills its pipe and ends."""
    link.start(py(0, FILL))
    link.until_written(0, b"\n")
    size = int(link.output(0))
    worker = Witness(link.pid(0))
    os.kill(link.agent, signal.SIGSTOP)
    os.kill(link.pid(0), signal.SIGUSR1)
    assert worker.sees_the_end()
    os.kill(link.agent, signal.SIGCONT)
    link.until_closed(0)
    assert link.output(0) == b"%d\n" % size + b"x" * size
    assert link.exit(0) == Exit(code=0)


def test_a_megabyte_at_once_is_whole(link: Link) -> None:
    link.start(*(py(r, f"import os; os.write(1, b'{r}' * (1 << 20))") for r in range(4)))
    link.until_closed(*range(4))
    assert [link.output(rank) for rank in range(4)] == [b"%d" % r * (1 << 20) for r in range(4)]


def until_it_waits(pid: int) -> None:
    """Until the process is found asleep time and again: it waits for somebody to read."""
    asleep = 0
    while asleep < 20:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        asleep = asleep + 1 if stat.rpartition(")")[2].split()[0] == "S" else 0
        time.sleep(0.01)


def test_a_launcher_that_does_not_read_costs_no_memory_and_no_byte(link: Link) -> None:
    link.start(py(0, "for n in range(1 << 20): print(n, 'x' * 50)"))
    until_it_waits(link.pid(0))
    link.until_closed(0)
    status = Path(f"/proc/{link.agent}/status").read_text(encoding="ascii").splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert peak < 48 << 10  # KiB; the worker wrote more
    expected = b"".join(b"%d %s\n" % (number, b"x" * 50) for number in range(1 << 20))
    assert hashlib.sha256(link.output(0)).digest() == hashlib.sha256(expected).digest()
