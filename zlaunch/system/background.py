"""Goes on in a process that has left the terminal, while the first one waits for its word.

The process is forked before there is any thread; what it says goes to a file from its first moment
on, and the one that waits shows that file as it grows.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from zlaunch.system.changes import Changes, can_watch
from zlaunch.system.loop import READ, Loop

_CHUNK = 64 << 10
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


class Away:
    """The side that has left; it tells how far it has come, to whoever still listens."""

    def __init__(self, told: int) -> None:
        self._told = told

    def starting(self) -> None:
        """Workers are about to start: what comes from here on is theirs as well."""
        self._tell(f"starting {os.fstat(2).st_size}")

    def running(self, what: str) -> None:
        """All workers run. `what` is a word for who waits, who may leave now."""
        self._tell(f"running {what}")

    def _tell(self, words: str) -> None:
        with suppress(OSError):  # who waited is gone
            os.write(self._told, f"{words}\n".encode())


class Behind:
    """The side that stays, with the other one's `pid`, until that one runs or has ended."""

    def __init__(self, pid: int, told: int, console: int, changes: Changes | None) -> None:
        self.pid = pid
        self._told = told
        self._console = console
        self._changes = changes
        self._shown, self._limit = 0, sys.maxsize  # bytes of the console
        self._words = b""
        self._running: str | None = None
        self._stopping = False
        self._loop = Loop()

    def wait(self) -> str | int:
        """Return the word of the other side once it runs, else its exit code.

        Ctrl-C, TERM and QUIT go to the other side; a terminal that hangs up ends this one alone.
        """
        heard = [s for s in _PASSED_ON if signal.getsignal(s) is not signal.SIG_IGN]
        self._loop.on_signal(heard, self._pass_on)
        self._loop.watch(self._told, READ, self._hear)
        if self._changes is not None:
            self._loop.watch(self._changes.fd, READ, self._show)
        self._loop.run()
        if self._running is not None:
            return self._running
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._limit = sys.maxsize
        self._show()
        return code if code >= 0 else 128 - code

    def _pass_on(self, signum: int) -> None:
        self._stopping = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signum)

    def _hear(self) -> None:
        data = os.read(self._told, _CHUNK)
        self._words += data
        *lines, self._words = self._words.split(b"\n")
        for line in lines:
            what, _, word = line.decode().partition(" ")
            if what == "starting":
                self._limit = int(word)
                self._show()
            elif not self._stopping:  # else it may run, but not for long
                self._running = word
        if not data or self._running is not None:
            self._loop.stop()

    def _show(self) -> None:
        """Show what has been said, up to where workers may have written."""
        if self._changes is not None:
            self._changes.clear()
        while left := min(_CHUNK, self._limit - self._shown):
            data = os.pread(self._console, left, self._shown)
            if not data:
                return
            self._shown += len(data)
            with suppress(OSError):  # nobody looks any more
                os.write(2, data)


def leave(console: int, path: Path) -> Away | Behind:
    """Fork; `console` is what the side that leaves has for stdout and stderr, at `path`.

    That one has a session of its own, and nothing to read.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    changes = _watch(path)
    hearing, told = os.pipe()
    pid = os.fork()
    if pid:
        os.close(told)
        return Behind(pid, hearing, console, changes)
    os.setsid()
    os.close(hearing)
    if changes is not None:
        changes.close()
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((null, 0), (console, 1), (console, 2)):
        os.dup2(fd, place)
    os.close(null)
    os.close(console)
    return Away(told)


def _watch(path: Path) -> Changes | None:
    """Without, what the other side says is shown at the end."""
    try:
        return Changes([path]) if can_watch() else None
    except OSError:
        return None
