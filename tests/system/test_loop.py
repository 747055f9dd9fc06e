"""One loop for descriptors, timers and signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from zlaunch.system.loop import READ, WRITE, Loop, read_chunk


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def handlers() -> Iterator[None]:
    """Puts the handlers back that a test replaces."""
    signums = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD)
    before = {signum: signal.getsignal(signum) for signum in signums}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.fixture
def pipes() -> Iterator[Callable[[], tuple[int, int]]]:
    ends: list[int] = []

    def pipe() -> tuple[int, int]:
        pair = os.pipe()
        ends.extend(pair)
        return pair

    yield pipe
    for fd in ends:
        os.close(fd)


def test_timers_fire_in_order_of_time_then_of_setting(loop: Loop) -> None:
    fired: list[str] = []
    now = time.monotonic()
    for name, when in [("c", 0.02), ("a", 0.01), ("d", 0.02), ("b", 0.01), ("past", -5)]:
        loop.at(now + when, lambda name=name: fired.append(name))  # type: ignore[misc]
    loop.run()
    assert fired == ["past", "a", "b", "c", "d"]
    assert time.monotonic() >= now + 0.02


def test_a_timer_may_set_another(loop: Loop) -> None:
    fired: list[int] = []

    def count(number: int) -> None:
        fired.append(number)
        if number < 5:
            loop.after(0, lambda: count(number + 1))

    loop.after(0, lambda: count(1))
    loop.run()
    assert fired == [1, 2, 3, 4, 5]


def test_a_cancelled_timer_is_void(loop: Loop) -> None:
    fired: list[str] = []
    cancelled = loop.after(0, lambda: fired.append("cancelled"))
    by_another = loop.after(0.001, lambda: fired.append("by another"))
    loop.after(0, by_another.cancel)
    cancelled.cancel()
    cancelled.cancel()
    fires = loop.after(0.001, lambda: fired.append("fires"))
    loop.run()
    fires.cancel()  # too late, and no harm
    assert fired == ["fires"]


def test_a_cancelled_timer_is_not_waited_for(loop: Loop) -> None:
    begun = time.monotonic()
    loop.after(6, lambda: None).cancel()
    loop.run()
    assert time.monotonic() - begun < 5


def test_stop_lets_the_rest_be(loop: Loop) -> None:
    loop.after(0, loop.stop)
    loop.after(3600, lambda: pytest.fail("not waited for"))
    loop.run()


def test_stop_before_run(loop: Loop) -> None:
    loop.stop()
    loop.after(3600, lambda: pytest.fail("not waited for"))
    loop.run()


def test_reads_and_writes(loop: Loop, pipes: Callable[[], tuple[int, int]]) -> None:
    reading, writing = pipes()
    seen: list[bytes] = []

    def write() -> None:
        os.write(writing, b"x")
        loop.unwatch(writing, WRITE)

    def read() -> None:
        seen.append(os.read(reading, 9))
        loop.unwatch(reading, READ)

    loop.watch(reading, READ, read)
    loop.watch(writing, WRITE, write)
    loop.run()
    assert seen == [b"x"]


def test_the_end_of_a_pipe_is_told(loop: Loop) -> None:
    reading, writing = os.pipe()
    seen: list[bytes | None] = []

    def read() -> None:
        seen.append(read_chunk(reading, 9))
        if seen[-1] == b"":
            loop.unwatch(reading, READ)

    os.write(writing, b"last")
    os.close(writing)
    loop.watch(reading, READ, read)
    loop.run()
    os.close(reading)
    assert seen == [b"last", b""]


def test_unwatch_inside_a_callback(loop: Loop, pipes: Callable[[], tuple[int, int]]) -> None:
    """Of several that are ready at once, each may take all others off the list."""
    ready = [pipes() for _ in range(8)]
    called: list[int] = []

    def first(fd: int) -> None:
        called.append(fd)
        for reading, _ in ready:
            loop.unwatch(reading, READ)

    for reading, writing in ready:
        os.write(writing, b"x")
        loop.watch(reading, READ, lambda fd=reading: first(fd))  # type: ignore[misc]
    loop.run()
    assert len(called) == 1


def test_read_and_write_of_one_descriptor(loop: Loop) -> None:
    ours, theirs = os.openpty()
    os.write(theirs, b"line\n")
    seen: list[str] = []

    def note(what: str, event: int) -> None:
        seen.append(what)
        loop.unwatch(ours, event)

    loop.watch(ours, READ, lambda: note("read", READ))
    loop.watch(ours, WRITE, lambda: note("write", WRITE))
    loop.run()
    os.close(ours)
    os.close(theirs)
    assert sorted(seen) == ["read", "write"]


def test_unwatch_of_what_is_not_watched(loop: Loop, pipes: Callable[[], tuple[int, int]]) -> None:
    reading, _ = pipes()
    loop.unwatch(reading, READ)
    loop.watch(reading, READ, lambda: None)
    loop.unwatch(reading, WRITE)
    loop.unwatch(reading, READ)
    loop.unwatch(reading, READ)
    loop.run()


def test_watching_again_replaces(loop: Loop, pipes: Callable[[], tuple[int, int]]) -> None:
    reading, writing = pipes()
    os.write(writing, b"x")
    loop.watch(reading, READ, lambda: pytest.fail("replaced"))
    loop.watch(reading, READ, loop.stop)
    loop.run()


def test_signals_are_told_from_the_loop(loop: Loop, handlers: None) -> None:
    got: list[int] = []

    def take(signum: int) -> None:
        got.append(signum)
        if len(got) == 2:
            loop.stop()

    loop.on_signal([signal.SIGUSR1, signal.SIGUSR2], take)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert got == []  # not before the loop runs
    loop.after(0, lambda: os.kill(os.getpid(), signal.SIGUSR2))
    loop.run()
    assert got == [signal.SIGUSR1, signal.SIGUSR2]


def test_a_signal_wakes_the_loop(loop: Loop, handlers: None) -> None:
    loop.on_signal([signal.SIGUSR1], lambda _: loop.stop())
    child = os.fork()
    if child == 0:
        os.kill(os.getppid(), signal.SIGUSR1)
        os._exit(0)
    loop.run()
    os.waitpid(child, 0)


def test_no_signal_is_lost_in_a_storm_of_others(loop: Loop, handlers: None) -> None:
    """Thousands of ended children must not drown the one signal that stops the run."""
    got: list[int] = []
    loop.on_signal([signal.SIGCHLD], got.append)
    loop.on_signal([signal.SIGTERM], lambda _: loop.stop())
    for _ in range(5000):
        os.kill(os.getpid(), signal.SIGCHLD)
    os.kill(os.getpid(), signal.SIGTERM)
    loop.after(6, lambda: pytest.fail("TERM was lost"))
    loop.run()
    assert got
    assert set(got) == {signal.SIGCHLD}


def test_read_chunk(pipes: Callable[[], tuple[int, int]]) -> None:
    reading, writing = pipes()
    os.set_blocking(reading, False)
    assert read_chunk(reading, 4) is None
    os.write(writing, b"abcdef")
    assert read_chunk(reading, 4) == b"abcd"
    assert read_chunk(reading, 4) == b"ef"


def test_read_chunk_of_a_terminal_whose_other_side_is_gone() -> None:
    ours, theirs = os.openpty()
    os.close(theirs)
    assert read_chunk(ours, 4) == b""
    os.close(ours)
