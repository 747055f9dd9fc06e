"""Starts a contender, waits for it to the millisecond, and leaves nothing of it behind."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import proc
from harness.case import Unmeasured
from harness.contender import Contender

LIMIT = 240.0  # seconds, for anything: then the contender hangs
_GRACE = 5.0  # seconds from TERM to KILL
_CHUNK = 1 << 20  # bytes
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of what a contender leaves behind, so that `running` finds it."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Running:
    """A contender that runs. Times are of `time.monotonic()`."""

    def __init__(self, contender: Contender, stdout: int, beside: Collection[int]) -> None:
        self.name = contender.name
        self._beside = set(beside)
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            contender.argv,
            env=contender.environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._handle = os.pidfd_open(self._process.pid)
        self.cpu_seconds = 0.0

    @property
    def pid(self) -> int:
        """The launcher."""
        return self._process.pid

    @property
    def console(self) -> int:
        """What it prints, where `stdout` was a pipe."""
        assert self._process.stdout
        return self._process.stdout.fileno()

    def elapsed(self) -> float:
        """Seconds since the command."""
        return time.monotonic() - self.started

    @property
    def alive(self) -> bool:
        """Whether the launcher runs."""
        return not self._ended_within(0)

    def wait(self, limit: float = LIMIT) -> int:
        """Wait until the launcher has ended and return its exit code."""
        if not self._ended_within(limit):
            raise Unmeasured(f"did not end within {limit:g} s")
        if self._process.returncode is None:
            _, status, usage = os.wait4(self.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_seconds = usage.ru_utime + usage.ru_stime
        return self._process.returncode

    def _ended_within(self, seconds: float) -> bool:
        # Popen.wait(timeout) looks every 50 ms; a pidfd tells at once.
        return bool(select.select([self._handle], [], [], seconds)[0])

    def read(self, limit: float = LIMIT) -> Iterator[bytes]:
        """What it prints, as it comes, up to the end."""
        while True:
            left = limit - self.elapsed()
            if left <= 0 or not select.select([self.console], [], [], left)[0]:
                raise Unmeasured(f"printed nothing more within {limit:g} s")
            data = os.read(self.console, _CHUNK)
            if not data:
                return
            yield data

    def close(self) -> None:
        """Stop what is left of it, however it hides."""
        if not self._ended_within(0):
            self._process.send_signal(signal.SIGTERM)
            self._ended_within(_GRACE)
        while left := proc.descendants(os.getpid()) - self._beside:
            for pid in left:
                _kill(pid)
            time.sleep(0.01)
        if self._process.returncode is None:
            self._process.returncode = -signal.SIGKILL
        if self._process.stdout:
            self._process.stdout.close()
        os.close(self._handle)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        return


@contextmanager
def running(
    contender: Contender, stdout: int = subprocess.DEVNULL, beside: Collection[int] = ()
) -> Iterator[Running]:
    """Start the contender here and see to it that nothing of it is left afterwards.

    Of what descends from this process only `beside` stays, not even what is below those.
    """
    process = Running(contender, stdout, beside)
    try:
        yield process
    finally:
        process.close()


def first_seen(contender: Contender, *signs: Callable[[bytes], bool]) -> tuple[float | None, ...]:
    """When each sign was first there in what the command prints, in seconds since it.

    Read as a person would: what counts is when it can be seen. The first sign has to come, and the
    command to end well; else it is unmeasured.
    """
    seen: list[float | None] = [None] * len(signs)
    with running(contender, subprocess.PIPE) as process:
        text = b""
        for data in process.read():
            text += data
            for place, sign in enumerate(signs):
                if seen[place] is None and sign(text):
                    seen[place] = process.elapsed()
        code = process.wait()
    if seen[0] is None or code != 0:
        last = text.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unmeasured(f"exit code {code}, not all ranks were seen; the last line is '{last}'")
    return tuple(seen)


def to_the_end(contender: Contender, limit: float = LIMIT) -> tuple[float, int]:
    """Run the command; return its seconds and its exit code."""
    with running(contender) as process:
        code = process.wait(limit)
        return process.elapsed(), code


def worker_pids(directory: Path, ranks: int, process: Running) -> list[int]:
    """Wait until every rank has left its pid in `directory`, and return them."""
    paths = [directory / f"up-{rank}" for rank in range(ranks)]
    while not all(path.exists() for path in paths):
        if not process.alive or process.elapsed() > LIMIT:
            raise Unmeasured(f"{sum(path.exists() for path in paths)} of {ranks} ranks came")
        time.sleep(0.02)
    return [int(path.read_text()) for path in paths]
