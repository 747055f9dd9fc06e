"""Where the ranks of this node are, and what they have used: asked of each, and of the system.

Runs in a child of the agent, which may wait. A process is signalled only if it has our file open
and a handler for the signal: others would die of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from zlaunch.agent.flight import ask_recorder, read_recorder
from zlaunch.agent.py_spy import dump_stacks
from zlaunch.agent.usage import gpu_of
from zlaunch.run.events import IDLE, Usage
from zlaunch.run.orders import DUMP_PATIENCE, TakeStacks
from zlaunch.system.gpu_work import GpuWork, gpu_work
from zlaunch.system.processes import (
    Status,
    catches,
    environment,
    has_open,
    sessions,
    status,
    transferred,
    waits_in,
)

_LONGEST = 64 << 10  # bytes of one rank's stacks; the main thread stands last
_PAUSE = 0.01  # seconds between looks at a file
_SETTLED = 0.04  # seconds without growth, after which a text is taken for whole
_HANDLER_SHARE = 0.6  # of the time; a process that has not answered by then will not
_NO_HANDLER = "no Python with the handler in it runs there"
_STATES = {
    "T": "stopped (SIGSTOP)",
    "t": "held by a debugger",
    "Z": "its main process has ended",
    "D": "in the kernel, where nothing wakes it (state D)",
}


class _Rank:
    """One rank: its processes, and as much of its stacks as is known."""

    def __init__(self, pid: int, env: Mapping[str, str], members: Sequence[Status]) -> None:
        self.env = env
        self.members = members
        self.main = next((one for one in members if one.pid == pid), status(pid))
        self.texts: list[str] = []
        self.why, self.thread = _NO_HANDLER, ""
        self.asked: _Asked | None = None
        self.waits = False


class _Asked:
    """A process that is asked for its stacks: those of all threads, or of its main one."""

    def __init__(self, pid: int, path: str) -> None:
        """Raises OSError or ValueError where it cannot be asked."""
        with open(path, "rb") as file:
            header = file.readline()
        thread, everything, main = header.split()
        self.pid, self.path, self._begin = pid, path, len(header)
        self._all, self._main = int(everything), int(main)
        self.thread = thread.decode("ascii")
        self.texts: list[str] = []
        self.done = False
        self._cut = ""
        self._until = 0.0
        self._size, self._since = 0, 0.0
        if not catches(pid, self._all) or not has_open(pid, path):
            raise ValueError(_NO_HANDLER)

    def ask(self, until: float) -> None:
        """Ask, and again and again until then (monotonic).

        Raises OSError where it is gone.
        """
        self._until = until
        self._ask(self._all)

    def _ask(self, signum: int) -> None:
        os.truncate(self.path, self._begin)  # it writes to the end, wherever that is
        self._size = 0
        os.kill(self.pid, signum)

    def read(self) -> None:
        """Take in what there is; once it grows no more, it is done."""
        size = os.stat(self.path).st_size - self._begin
        now = time.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        elif size > 0 and now - self._since > _SETTLED:
            self._take()

    def _take(self) -> None:
        with open(self.path, "rb") as file:
            file.seek(self._begin)
            data = file.read()
        text = self._cut + data[-_LONGEST:].decode("utf-8", "replace")
        if not self._cut and data.endswith(b"\n...\n"):  # over 100 threads, the newest first
            self._cut = text
            self._ask(self._main)
            return
        if text not in self.texts and sum(map(len, self.texts)) < _LONGEST:
            self.texts.append(text)
        self._cut = ""
        self.done = time.monotonic() > self._until
        if not self.done:
            self._ask(self._all)


def look(
    workers: Mapping[int, tuple[int, Mapping[str, str]]],
    directory: str,
    order: TakeStacks,
    before: Mapping[int, tuple[float, float]],
) -> dict[str, Any]:
    """Return the fields of `Stacks` for each rank.

    `before` says when the ranks were looked at last, and what processor time they had used.
    """
    begun = time.monotonic()
    end, thorough = begun + order.within, order.how == "thoroughly"
    all_sessions = sessions()
    ranks = {
        rank: _Rank(pid, env, all_sessions.get(pid, ())) for rank, (pid, env) in workers.items()
    }
    flights = {
        rank: ask_recorder(rank, _environment(one), os.path.join(directory, "flight-"))
        for rank, one in ranks.items()
        if thorough
    }
    registered = set(os.listdir(directory)) if directory else set()
    for one in ranks.values():
        _find(one, directory, registered)
    usages = _usages(ranks)
    until = begun + order.within / 2 if order.how == "often" else 0.0
    for rank, one in ranks.items():
        if thorough or _works(usages[rank], before.get(rank)):
            _ask(one, until)
        else:
            one.why = "it waits"
    _wait(list(ranks.values()), begun + order.within * _HANDLER_SHARE)
    if thorough:
        _ask_py_spy([one for one in ranks.values() if not one.texts], end)
    answers: dict[str, Any] = {}
    for rank, one in ranks.items():
        why = "" if one.texts else one.why
        answer = {"texts": one.texts, "main": one.thread, "why": why}
        flight = read_recorder(flights[rank], end + DUMP_PATIENCE) if thorough else []
        answers[str(rank)] = {**answer, "usage": asdict(usages[rank]), "flight": flight}
    return answers


# The handler


def _find(rank: _Rank, directory: str, registered: set[str]) -> None:
    """Find the process that has the handler."""
    main = rank.main
    if main is None or main.state in "TtZ":
        rank.why = _state(main)
        return
    # A shell script may have started Python, more than once even: the oldest is the training.
    for one in sorted(rank.members, key=lambda member: member.pid != main.pid):
        if str(one.pid) in registered:
            with suppress(OSError, ValueError):
                rank.asked = _Asked(one.pid, os.path.join(directory, str(one.pid)))
                return


def _works(usage: Usage, before: tuple[float, float] | None) -> bool:
    """Whether a rank has used the processor since it was looked at last."""
    if before is None:
        return False
    at, cpu = before
    return usage.cpu - cpu >= IDLE * (time.time() - at)


def _ask(rank: _Rank, until: float) -> None:
    if rank.asked is not None:
        rank.waits = True
        with suppress(OSError):
            rank.asked.ask(until)


def _wait(ranks: Sequence[_Rank], end: float) -> None:
    while time.monotonic() < end:
        waiting = [one.asked for one in ranks if one.asked and one.waits and not one.asked.done]
        for asked in waiting:
            with suppress(OSError):
                asked.read()
        if not waiting:
            break
        time.sleep(_PAUSE)
    for rank in ranks:
        if rank.asked is not None and rank.waits:
            rank.texts, rank.thread = rank.asked.texts, rank.asked.thread
            if not rank.texts:
                rank.why = _silence(status(rank.asked.pid))


def _silence(process: Status | None) -> str:
    """Why a process with the handler did not answer."""
    if process is not None and process.state not in _STATES:
        return "its handler did not answer; does the script use signal 52?"
    return _state(process)


def _state(process: Status | None) -> str:
    if process is None:
        return "its process is gone"
    where = waits_in(process.pid)
    state = _STATES.get(process.state, f"state {process.state}")
    return f"{state}: {where}" if where and process.state == "D" else state


# py-spy, where it is there and may


def _ask_py_spy(ranks: Sequence[_Rank], end: float) -> None:
    pids = {_python(one): one for one in ranks if one.main and one.main.state not in "TtZ"}
    for pid, dump in dump_stacks(list(pids), end).items():
        rank = pids[pid]
        rank.texts = [dump.text[-_LONGEST:]] if dump.text else []
        rank.why += f"; py-spy: {dump.why}" if dump.why else ""


def _python(rank: _Rank) -> int:
    """The oldest process of the rank that looks like Python; else its main one."""
    assert rank.main is not None
    for one in (rank.main, *rank.members):
        with suppress(OSError):
            if "python" in os.path.basename(os.readlink(f"/proc/{one.pid}/exe")):
                return one.pid
    return rank.main.pid


def _environment(rank: _Rank) -> dict[str, str]:
    return environment(rank.main.pid) if rank.main else {}


# What was used


def _usages(ranks: Mapping[int, _Rank]) -> dict[int, Usage]:
    tokens = {rank: gpu_of(one.env) for rank, one in ranks.items()}
    wanted = sorted({token for token in tokens.values() if token})
    work = gpu_work(wanted) if wanted else {}
    return {rank: _usage(one, work.get(tokens[rank])) for rank, one in ranks.items()}


def _usage(rank: _Rank, work: GpuWork | None) -> Usage:
    main = rank.main
    if rank.asked is not None:  # below a shell script it is Python that counts
        main = next((one for one in rank.members if one.pid == rank.asked.pid), main)
    others = [one for one in rank.members if main is None or one.pid != main.pid]
    of_dead = main.children if main else 0.0
    return Usage(
        cpu=main.cpu if main else 0.0,
        others=of_dead + sum(one.cpu + one.children for one in others),
        traffic=sum(transferred(one.pid) for one in rank.members),
        kernels=work.kernels if work else None,
        memory=work.memory if work else None,
    )
