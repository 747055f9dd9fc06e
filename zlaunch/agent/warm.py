"""A warm start: one process imports what the workers need, and forks them.

`workers/warm_server.py` says how. Whatever goes wrong there, the workers are started as ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Callable

from zlaunch.agent.private_directory import PrivateDirectory
from zlaunch.frozen import frozen
from zlaunch.spec.worker import Preload, WorkerSpec
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.spawn import Process
from zlaunch.system.stdio import Stdio

_CHUNK = 64 << 10
_HIGH = 500  # so that the numbers that a script's own files get are those that they would get
_MOST_SAID = 256 << 10  # bytes that imports may print; each rank gets them

# What hooks into the start of an interpreter, or watches it: it would see one where it expects
# many.
_HOOKS = (
    "COVERAGE_PROCESS", "PYDEVD_", "DEBUGPY_", "CUDA_INJECTION", "NVTX_INJECTION", "LD_AUDIT",
    "PYTHONDUMPREFS", "PYTHONFAULTHANDLER", "PYTHONINSPECT", "PYTHONMALLOCSTATS",
    "PYTHONPERFSUPPORT", "PYTHONPROFILEIMPORTTIME", "PYTHONTRACEMALLOC", "PYTHONVERBOSE",
    "PYTHON_PERF", "PYTHONDEVMODE", "VIZTRACER", "SCALENE",
)  # fmt: skip
_EARLY = ("PYTHON", "LD_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "MALLOC_")  # at the start
_HARMLESS = ("libtcmalloc", "libjemalloc", "libmimalloc", "libiomp", "libgomp")  # LD_PRELOAD


@frozen
class Rank:
    """A worker to start: its command, the environment that it is to see, and what is its own."""

    spec: WorkerSpec
    env: Mapping[str, str]


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


def doubt(preload: Preload, ranks: Sequence[Rank]) -> str:
    """Say why these cannot be forked, empty if they can; `ranks` read nothing."""
    if len(ranks) < 2 and not (ranks and preload.asked):
        return "one rank alone"
    if not sys.platform.startswith("linux"):
        return "no Linux"
    shared = _shared(ranks)
    for name in {name for rank in ranks for name in rank.env}:
        if name.startswith(_HOOKS):
            return f"{name} is set"
        if name not in shared and name.startswith(_EARLY):
            return f"{name} differs from rank to rank"
    libraries = shared.get("LD_PRELOAD", "").replace(":", " ").split()
    if not all(os.path.basename(one).startswith(_HARMLESS) for one in libraries):
        return "LD_PRELOAD is set"
    import shutil  # for warm starts alone: they cost more than this module
    from pathlib import Path

    from zlaunch.system.script_digest import script_digest

    for path, digest in preload.sources:
        if script_digest(Path(ranks[0].spec.cwd or "", path)) != digest:
            return f"{path} is not as it was read"

    program = shutil.which(ranks[0].spec.argv[0], path=shared.get("PATH"))
    if program is None or not _is_binary(program):
        # Who knows what a script makes of the environment: the server might not be one.
        return f"{ranks[0].spec.argv[0]} is no binary"
    return ""


def _is_binary(program: str) -> bool:
    try:
        with open(program, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _shared(ranks: Sequence[Rank]) -> dict[str, str]:
    first, *others = (rank.env for rank in ranks)
    return {
        name: value
        for name, value in first.items()
        if all(env.get(name) == value for env in others)
    }


class WarmStart:
    """One attempt at it. `on_end` is called once, from the loop, unless it was dropped."""

    def __init__(
        self,
        loop: Loop,
        preload: Preload,
        ranks: Sequence[Rank],
        handler: str,
        admit: Callable[[int], None],
        on_end: Callable[[Outcome], None],
    ) -> None:
        """`handler` is the directory of the stack handler, or empty; raises OSError."""
        self._loop = loop
        self._ranks = {rank.spec.rank: rank for rank in ranks}
        self._on_end = on_end
        self._directory = PrivateDirectory()
        self._stdios: dict[int, Stdio] = {}
        self._pids: dict[int, int] = {}
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
        self._timer = loop.after(preload.within, partial(self.end, words))

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
        shared = _shared(ranks)
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
        shared["PYTHONPATH"] = f"{here}{os.pathsep}{own}" if own else here
        process = Process(argv, shared, ranks[0].spec.cwd, None, keep=theirs.values())
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
        if not data:  # the server has ended, and every child is ours
            self._finish()
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace"))

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "cold":
            self._why = self._why or rest
        elif word != "ready":
            self._pids[int(word)] = int(rest)
        elif not self._why:
            self._read_words()  # all of it is there by now
            with contextlib.suppress(OSError):  # it has been killed
                os.write(self._orders, b"!")

    # Ending

    def end(self, why: str) -> None:
        """Kill the server; whoever is forked by now stays."""
        self._why = self._why or why
        self._server.kill_group()

    def drop(self) -> None:
        """Kill the server and forget about it; the agent is leaving."""
        self._server.end_group()
        self._let_go()

    def _finish(self) -> None:
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
