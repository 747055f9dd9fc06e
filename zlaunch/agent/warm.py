"""A warm start: one process imports what the workers need, and forks them.

`workers/warm_server.py` says how. Whatever goes wrong there, the workers are started as ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import signal
from collections.abc import Sequence
from functools import partial
from typing import Callable

from zlaunch.agent.private_directory import PrivateDirectory
from zlaunch.agent.warm_doubt import Rank, shared_environment
from zlaunch.frozen import frozen
from zlaunch.spec.worker import Preload
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.processes import environment
from zlaunch.system.spawn import Process, children
from zlaunch.system.stdio import Stdio

_CHUNK = 64 << 10
_HIGH = 500  # so that the numbers that a script's own files get are those that they would get
_COME = 5.0  # seconds after the server's end; whoever it has forked takes some milliseconds
_MOST_SAID = 256 << 10  # bytes that imports may print; each rank gets them


@frozen
class Forked:
    """A worker that was forked, its descriptors, and what its imports had printed."""

    rank: Rank
    pid: int
    stdio: Stdio
    said: bytes


@frozen
class Outcome:
    """How a warm start went: `why` the `cold` ones have to be started as ever."""

    forked: Sequence[Forked]
    cold: Sequence[Rank]
    why: str


class WarmStart:
    """One attempt at it. `on_end` is called once, from the loop, unless it was dropped."""

    def __init__(
        self,
        loop: Loop,
        preload: Preload,
        ranks: Sequence[Rank],
        mark: Sequence[str],
        handler: str,
        admit: Callable[[int], None],
        on_end: Callable[[Outcome], None],
    ) -> None:
        """`mark` stands in the environment of all that is started here.

        `handler` is the directory of the stack handler, or empty. Raises OSError.
        """
        self._loop = loop
        self._ranks = {rank.spec.rank: rank for rank in ranks}
        self._on_end = on_end
        self._directory = PrivateDirectory()
        self._stdios: dict[int, Stdio] = {}
        self._pids: dict[int, int] = {}
        self._up: set[int] = set()  # ranks that have become children of ours
        self._asked_to_fork = False
        self._over = False
        self._mark = {name: value for name, _, value in (entry.partition("=") for entry in mark)}
        self._shared = shared_environment(ranks)
        self._server_ended = False
        self._pending = b""
        self._said = b""
        self._why = ""
        self._timer: Timer | None = None
        self._fds: set[int] = set()
        try:
            self._server = self._start(preload, list(ranks), handler)
            admit(self._server.pid)
        except BaseException:
            self._let_go()
            raise
        loop.watch(self._answers, READ, self._read_answers)
        loop.watch(self._server.fd, READ, self._read_words)
        words = f"imports took longer than {preload.within:g} s"
        self._expect(preload.within, partial(self.end, words))

    def _start(self, preload: Preload, ranks: list[Rank], handler: str) -> Process:
        """Start the server, with the command line of a worker and the ends of all of them."""
        self._directory.make()
        if os.pathsep in self._directory.path:
            raise ValueError(f"{self._directory.path} cannot be in a PYTHONPATH")
        for rank in ranks:
            self._stdios[rank.spec.rank] = stdio = Stdio.open("null")
            self._fds.add(stdio.out)
        self._answers, answers = self._pipe()
        orders, self._orders = self._pipe()
        os.set_blocking(self._answers, False)
        theirs = {fd: self._moved(fd) for fd in self._fds - {self._answers, self._orders}}
        argv = max((rank.spec.argv for rank in ranks), key=lambda argv: sum(map(len, argv)))
        shared = self._shared
        plan = {
            "agent": os.getpid(),
            "answers": theirs[answers],
            "orders": theirs[orders],
            "imports": preload.imports,
            "script": "" if argv[1] == "-m" else argv[1],
            "argv": argv,
            "pythonpath": shared.get("PYTHONPATH"),
            "handler": handler,
            "ranks": [
                (
                    rank.spec.rank,
                    theirs[self._stdios[rank.spec.rank].out],
                    {name: rank.env[name] for name in rank.env if name not in shared},
                    rank.spec.argv,
                )
                for rank in ranks
            ],
        }
        for name, text in preload.files:
            self._directory.write(name, text)
        self._directory.write("plan", marshal.dumps(plan, 2))
        own = shared.get("PYTHONPATH")
        here = self._directory.path
        env = {**shared, "PYTHONPATH": f"{here}{os.pathsep}{own}" if own else here}
        process = Process(argv, env, ranks[0].spec.cwd, None, keep=theirs.values())
        self._close(*theirs, *theirs.values())
        return process

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._fds |= {*ends}
        return ends

    def _moved(self, fd: int) -> int:
        """A copy with a high number, where the limit allows it."""
        try:
            copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        except OSError:
            copy = os.dup(fd)
        self._fds.add(copy)
        return copy

    def _close(self, *fds: int) -> None:
        for fd in fds:
            os.close(fd)
            self._fds.discard(fd)

    # What the server says

    def _read_words(self) -> None:
        """Keep what imports print: each rank would have printed it."""
        while data := read_chunk(self._server.fd, _CHUNK):
            self._said += data
            if len(self._said) > _MOST_SAID:
                self.end("imports print too much")
                return
        if data == b"":
            self._loop.unwatch(self._server.fd, READ)

    def _read_answers(self) -> None:
        data = read_chunk(self._answers, _CHUNK)
        if data is None:
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace"))
        # At the end of the pipe the server has ended, and every child is ours. What an import has
        # left behind may hold it open for long.
        if not data or len(self._up) == len(self._ranks):
            self._finish()

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "cold":
            self.end(rest)
        elif word == "up":
            self._up.add(int(rest))
        elif word != "ready":
            self._pids[int(word)] = int(rest)
        elif any(map(self._is_stray, children())):
            self.end("an import starts a process")
        elif not self._why:
            self._read_words()  # all of it is there by now
            with contextlib.suppress(OSError):  # it has been killed
                os.write(self._orders, b"!")
                self._asked_to_fork = True

    def _is_stray(self, pid: int) -> bool:
        """Whether an import has started this child of ours; a rank's own has its variables."""
        if pid == self._server.pid:
            return False
        env = environment(pid)
        return self._mark.items() <= env.items() and env.get("RANK") in {
            None, self._shared.get("RANK"),
        }  # fmt: skip

    # Ending

    def look(self) -> None:
        """A child has ended; once that was the server, nobody is forked any more."""
        if self._server_ended or self._server.poll() is None:
            return
        self._server_ended = True
        self._read_answers()
        if not self._asked_to_fork:
            self._finish()
        elif not self._over:
            self._expect(_COME, self._cut)

    def _expect(self, seconds: float, otherwise: Callable[[], None]) -> None:
        """Have it over within that time; what was expected before is not any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.after(seconds, otherwise)

    def _cut(self) -> None:
        """Who has not come is not to come any more: whoever begins now finds the pipe closed."""
        for rank in self._pids.keys() - self._up:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pids.pop(rank), signal.SIGKILL)
        self._finish()

    def end(self, why: str) -> None:
        """Kill the server; whoever is forked by now stays."""
        self._why = self._why or why
        self._server.kill_group()

    def drop(self) -> None:
        """Kill the server and forget about it; the agent is leaving."""
        self._over = True
        self._server.end_group()
        self._let_go()

    def _finish(self) -> None:
        if self._over:
            return
        self._over = True
        self._server.end_group()
        if not self._why and len(self._pids) < len(self._ranks):
            self._why = "the process that imports ended too early"
        forked = [
            Forked(self._ranks[rank], pid, self._stdios.pop(rank), self._said)
            for rank, pid in self._pids.items()
        ]
        cold = [self._ranks[rank] for rank in self._ranks if rank not in self._pids]
        self._let_go()
        self._on_end(Outcome(forked, cold, self._why))

    def _let_go(self) -> None:
        """Give back what no worker has."""
        if self._timer is not None:
            self._timer.cancel()
            for fd in (self._answers, self._server.fd):
                self._loop.unwatch(fd, READ)
            os.close(self._server.fd)
        for stdio in self._stdios.values():
            stdio.close_ours()
        self._close(*self._fds)
        self._directory.remove()
