"""Real launches for the tests beside this file: a folder, a home for runs, processes."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ZLAUNCH = (sys.executable, "-m", "zlaunch")
LONG = 180.0  # seconds; far more than anything here takes, for a machine under load

# Takes the terminal on fd 0 as its own, as a shell's job has it, and becomes the program.
_WITH_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def has_nvml() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


without_nvml = pytest.mark.skipif(has_nvml(), reason="this machine's own GPUs would answer")


def eventually(condition: Callable[[], Any], seconds: float = LONG) -> bool:
    """Wait for what no event tells of, such as a process that is gone."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        return self.stderr.decode(errors="replace")

    @property
    def text(self) -> str:
        return self.out + self.err


class Live:
    """A command under way, its output read as it comes."""

    def __init__(self, process: subprocess.Popen[bytes], streams: Sequence[int]) -> None:
        self.process = process
        self.pid = process.pid
        self.seen: list[bytes] = [b""] * len(streams)
        self._news = threading.Condition()
        self._reading = True
        self._readers = [
            threading.Thread(target=self._read, args=(place, fd), daemon=True)
            for place, fd in enumerate(streams)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, place: int, fd: int) -> None:
        while self._reading:
            try:
                ready = select.select([fd], [], [], 0.05)[0]
                data = os.read(fd, 1 << 16) if ready else b""
            except OSError:  # the other side of a terminal is gone
                ready, data = [fd], b""
            if ready and not data:
                break
            with self._news:
                self.seen[place] += data
                self._news.notify_all()
        os.close(fd)

    def close_streams(self) -> None:
        """Let go of the command's output."""
        self._reading = False
        for reader in self._readers:
            reader.join()

    @property
    def text(self) -> str:
        return b"".join(self.seen).decode(errors="replace")

    def until(self, text: str, seconds: float = LONG, count: int = 1) -> None:
        """Wait until the command has printed `text`, `count` times."""
        with self._news:
            there = self._news.wait_for(lambda: self.text.count(text) >= count, seconds)
        assert there, f"{text!r} was not printed: {self.text[-2000:]}"

    def send(self, signum: int) -> None:
        """Send a signal to the command's own process, as `kill PID` does."""
        self.process.send_signal(signum)

    def end(self, seconds: float = LONG) -> Done:
        """Wait for the end of the command and of its output."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(seconds)
        both = [*self.seen, b""]
        return Done(code, both[0], both[1])


class Journey:
    """One test's folder, its home for runs, and all that was started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.home = folder / "home"
        self.folder.mkdir()
        self.env = {
            "PATH": f"{os.environ['PATH']}:{Path(sys.executable).parent}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "ZLAUNCH_HOME": str(self.home),
            # Where the operators of all tests are (`compiled`), so that none is built twice.
            "TORCH_EXTENSIONS_DIR": os.environ["TORCH_EXTENSIONS_DIR"],
            "ZLAUNCH_LEASE_DIR": str(folder / "leases"),
        }
        self.checked = False  # the test has looked for leftovers itself
        self._started: list[subprocess.Popen[bytes]] = []

    def script(self, text: str, name: str = "job.py") -> str:
        """Write a script; the name is given back for the command line."""
        (self.folder / name).write_text(text)
        return name

    def program(self, text: str, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def popen(self, *args: str, command: Sequence[str] = ZLAUNCH, **options: Any) -> Any:
        """Start zlaunch (or another command) with nothing around it."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(
            [*command, *args], cwd=self.folder, env=self.env | options.pop("env", {}), **options
        )
        self._started.append(process)
        return process

    def start(self, *args: str, **options: Any) -> Live:
        """Start zlaunch with two pipes that are read all the time."""
        process = self.popen(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        streams = [os.dup(process.stdout.fileno()), os.dup(process.stderr.fileno())]
        process.stdout.close()
        process.stderr.close()
        return Live(process, streams)

    def on_terminal(
        self, *args: str, columns: int = 100, shell: str | None = None, **options: Any
    ) -> tuple[Live, int]:
        """Start zlaunch on a terminal of its own; returns its other end, to type there.

        With a `shell`, a script, that one is the terminal's owner and starts it.
        """
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = self.popen(
            *((sys.executable, shell) if shell else ()),
            *ZLAUNCH,
            *args,
            command=(sys.executable, "-c", _WITH_TERMINAL),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            **options,
        )
        os.close(theirs)
        return Live(process, [os.dup(ours)]), ours

    def zlaunch(self, *args: str, seconds: float = LONG, **options: Any) -> Done:
        """Run zlaunch to its end."""
        return self.start(*args, **options).end(seconds)

    # What a run left on disk

    @property
    def runs(self) -> list[Path]:
        return sorted((self.home / "runs").glob("*"))

    @property
    def latest(self) -> Path:
        return (self.home / "latest").resolve(strict=True)

    def log(self, rank: int = 0) -> bytes:
        return (self.latest / "logs" / f"rank-{rank}.log").read_bytes()

    def reports(self, run: Path | None = None) -> list[dict[str, Any]]:
        """What each rank of the probe said, in the order of ranks."""
        logs = ((run or self.latest) / "logs").glob("rank-*.log")
        found = [json.loads(log.read_bytes().splitlines()[-1]) for log in logs]
        return sorted(found, key=lambda report: int(report["env"]["RANK"]))

    def record(self) -> dict[str, Any]:
        return json.loads((self.latest / "run.json").read_text())

    # Processes

    def alive(self) -> dict[int, str]:
        """Every process that has this journey's ZLAUNCH_HOME in its environment."""
        mark = f"ZLAUNCH_HOME={self.home}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        words = (entry / "cmdline").read_bytes().split(b"\0")
                        found[int(entry.name)] = b" ".join(words).decode(errors="replace")
        return found

    def assert_gone(self, seconds: float = 10.0) -> None:
        """Nothing of any run here is alive, at the latest after `seconds`."""
        self.checked = True
        gone = eventually(lambda: not self.alive(), seconds)
        assert gone, f"still alive: {self.alive()}"

    def close(self) -> None:
        """Make sure that whatever a failed test has left is ended."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for pid in self.alive() if not eventually(lambda: not self.alive(), 5) else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def journey(tmp_path: Path) -> Iterator[Journey]:
    """A home of its own; no process may be left behind."""
    journey = Journey(tmp_path)
    try:
        yield journey
        if not journey.checked:
            journey.assert_gone()
    finally:
        journey.close()


def children_of(pid: int) -> list[int]:
    """The agent, for a launcher; the workers, for an agent."""
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


# Prints where it woke up and with what, as one line of JSON.
PROBE = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd(), "path0": sys.path[0],
    "pid": os.getpid(), "pgid": os.getpgid(0), "sid": os.getsid(0), "ppid": os.getppid(),
    "python": sys.executable, "stdin": os.read(0, 10).decode(),
    "terminals": [os.isatty(fd) for fd in (0, 1, 2)],
}))
"""
