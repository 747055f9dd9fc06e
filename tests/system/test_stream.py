"""Writing without waiting, on real pipes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from zlaunch.system.loop import READ, Loop
from zlaunch.system.stream import OutStream


class Pipe:
    """A pipe, the stream on its writing end, and how often that was drained."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.loop = Loop()
        self.drained = 0
        self.stream = OutStream(self.loop, self.writing, self._on_drained)

    def _on_drained(self) -> None:
        self.drained += 1

    def take(self, size: int = 1 << 20) -> bytes:
        """What can be read now."""
        data = b""
        try:
            while len(data) < size and (chunk := os.read(self.reading, size - len(data))):
                data += chunk
        except BlockingIOError:
            pass
        return data

    def fill(self) -> bytes:
        """Write until the pipe takes no more, and return what was written."""
        written = b""
        while not self.stream.pending:
            chunk = b"%09d\n" % len(written) * 1000
            self.stream.write(chunk)
            written += chunk
        return written

    def hang_up(self) -> None:
        os.close(self.reading)
        self.reading = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.loop.close()
    for fd in {pipe.reading, pipe.writing} - {-1}:
        os.close(fd)


def test_what_fits_is_written_at_once(pipe: Pipe) -> None:
    pipe.stream.write(b"one ")
    pipe.stream.write(b"")
    pipe.stream.write(b"two")
    assert (pipe.stream.pending, pipe.stream.taken) == (0, 7)
    assert pipe.take() == b"one two"
    pipe.loop.run()  # there is nothing to wait for
    assert pipe.drained == 0


def test_a_slow_reader_gets_all_in_order(pipe: Pipe) -> None:
    sent = [b"%d;" % number * (number % 700) for number in range(3000)]
    got = bytearray()

    def read_a_little() -> None:
        got.extend(os.read(pipe.reading, 3001))
        if len(got) == sum(map(len, sent)):
            pipe.loop.unwatch(pipe.reading, READ)

    for piece in sent:
        pipe.stream.write(piece)
    assert pipe.stream.pending > 0
    assert pipe.stream.pending + pipe.stream.taken == sum(map(len, sent))
    pipe.loop.watch(pipe.reading, READ, read_a_little)
    pipe.loop.run()
    assert bytes(got) == b"".join(sent)
    assert (pipe.stream.pending, pipe.stream.taken) == (0, len(got))
    assert pipe.drained == 1


def test_writing_goes_on_behind_what_waits(pipe: Pipe) -> None:
    written = pipe.fill()
    pipe.stream.write(b"last")
    got = pipe.take()
    pipe.stream.flush()
    while pipe.stream.pending:
        got += pipe.take()
        pipe.stream.flush()
    assert got + pipe.take() == written + b"last"


def test_whoever_is_told_of_room_may_write_again(pipe: Pipe) -> None:
    sent = bytearray(pipe.fill())
    got = bytearray()
    more = [b"c" * 10, b"b" * 300_000, b"a" * 300_000]

    def refill() -> None:
        if more:
            sent.extend(more[-1])
            pipe.stream.write(more.pop())
        if not more and not pipe.stream.pending:
            pipe.loop.unwatch(pipe.reading, READ)

    pipe.stream._on_drained = refill
    pipe.loop.watch(pipe.reading, READ, lambda: got.extend(pipe.take(50_000)))
    pipe.loop.run()
    got += pipe.take()
    assert not more
    assert bytes(got) == bytes(sent)


def test_a_reader_that_is_gone_closes_the_stream(pipe: Pipe) -> None:
    pipe.hang_up()
    pipe.stream.write(b"into the void")
    assert pipe.stream.closed
    assert pipe.stream.pending == 0
    pipe.stream.write(b"vanishes")
    assert (pipe.stream.pending, pipe.stream.taken) == (0, 0)


def test_a_reader_that_goes_while_something_waits(pipe: Pipe) -> None:
    pipe.fill()
    pipe.hang_up()
    pipe.loop.run()  # ends, since nothing is watched any more
    assert pipe.stream.closed
    assert pipe.stream.pending == 0
    assert pipe.drained == 1  # whoever paused may go on


def test_close_forgets_what_waits_and_leaves_the_descriptor(pipe: Pipe) -> None:
    pipe.fill()
    pipe.stream.close()
    assert pipe.stream.pending == 0
    pipe.loop.run()
    pipe.take()
    os.write(pipe.writing, b"still open")
    assert pipe.take() == b"still open"


def test_the_descriptor_is_made_non_blocking(pipe: Pipe) -> None:
    assert not os.get_blocking(pipe.writing)


def test_a_full_device_closes_the_stream() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    stream = OutStream(Loop(), fd)
    stream.write(b"x")
    os.close(fd)
    assert stream.closed
