"""What the ranks of this node use: their processes by /proc, their GPUs by a child.

The child asks the driver, which may hang, and keeps it open from one question to the next. Without
GPUs there is none.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Callable

from zlaunch.agent.aside import become_child
from zlaunch.run.messages import Event, Used
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.processes import Status, status

_PATIENCE = 5.0  # seconds for the driver; one that took longer is asked no more
_CHUNK = 64 << 10

_Ranks = Mapping[int, "tuple[int, Mapping[str, str]]"]


class UsageTaker:
    """Answers `TakeUsage`, without ever waiting for a driver."""

    def __init__(self, node_rank: int, loop: Loop, send: Callable[[Event], None]) -> None:
        self._node_rank = node_rank
        self._loop = loop
        self._send = send
        self._strangers: set[str] = set()
        self._ranks: _Ranks = {}
        self._gpus: _GpuChild | None = None
        self._gpus_hang = False

    def take(self, ranks: _Ranks) -> None:
        """Say what each rank uses; `ranks` maps it to its pid and its own environment."""
        self._ranks = ranks
        tokens = sorted({token for _, env in ranks.values() if (token := gpu_of(env))})
        if not tokens or self._gpus_hang:
            self._answer({})
            return
        if self._gpus is None or self._gpus.tokens != tokens:
            self.end()
            self._gpus = _GpuChild(self._loop, tokens, self._answer_with)
        self._gpus.ask()

    def _answer_with(self, gpus: dict[str, Any] | None) -> None:
        if gpus is None:
            self._gpus_hang = True
            self.end()
        self._answer(gpus or {})

    def _answer(self, gpus: Mapping[str, Any]) -> None:
        sessions = self._sessions({pid for pid, _ in self._ranks.values()})
        told = {
            str(rank): _usage(sessions.get(pid, ()), gpus.get(gpu_of(env), {}))
            for rank, (pid, env) in self._ranks.items()
            if pid in sessions
        }
        self._send(Used(self._node_rank, time.time(), told))

    def _sessions(self, leaders: set[int]) -> dict[int, list[Status]]:
        """The processes of each session; whoever was found in another is not read again."""
        there = set(filter(str.isdigit, os.listdir("/proc")))
        self._strangers &= there  # what comes under the pid of one that is gone is another
        found: dict[int, list[Status]] = {}
        for name in (there - self._strangers) | set(map(str, leaders)):
            one = status(int(name))
            if one is not None and one.session in leaders:
                found.setdefault(one.session, []).append(one)
            else:
                self._strangers.add(name)
        return found

    def end(self) -> None:
        """Nobody is left to ask about."""
        if self._gpus is not None:
            self._gpus.end()
            self._gpus = None


def gpu_of(env: Mapping[str, str]) -> str:
    """The token of a rank's GPU, as CUDA_VISIBLE_DEVICES spells it."""
    tokens = env.get("CUDA_VISIBLE_DEVICES", "").split(",")
    local_rank = env.get("LOCAL_RANK", "")
    if local_rank.isdigit() and int(local_rank) < len(tokens):
        return tokens[int(local_rank)].strip()
    return ""


def _usage(processes: Any, gpu: Mapping[str, Any]) -> dict[str, float]:
    told = {
        "cpu": round(sum(one.cpu + one.children for one in processes), 2),
        "rss": sum(one.rss for one in processes),
    }
    users = gpu.get("users", {})
    own = [users[str(one.pid)] for one in processes if str(one.pid) in users]
    # In a container the driver tells pids of another one: then all of the GPU counts.
    memory = sum(own) if own else gpu.get("used")
    fields = {
        "gpu_memory": memory,
        "gpu_memory_total": gpu.get("total"),
        "gpu_utilization": gpu.get("kernels"),
    }
    return {**told, **{name: value for name, value in fields.items() if value is not None}}


class _GpuChild:
    """Asks the driver, again and again; it may hang, and be killed."""

    def __init__(
        self, loop: Loop, tokens: list[str], on_answer: Callable[[dict[str, Any] | None], None]
    ) -> None:
        self.tokens = tokens
        self._loop = loop
        self._on_answer = on_answer
        self._data = b""
        self._timer: Timer | None = None
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _serve(tokens, theirs.fileno(), parent)
        theirs.close()
        self._socket.setblocking(False)
        loop.watch(self._socket.fileno(), READ, self._read)

    def ask(self) -> None:
        """Ask; who has not answered yet is not asked again."""
        if self._timer is None:
            self._timer = self._loop.after(_PATIENCE, self._give_up)
            with suppress(OSError):
                self._socket.send(b"\n")

    def _read(self) -> None:
        data = read_chunk(self._socket.fileno(), _CHUNK)
        if data is None:
            return
        self._data += data
        if data and not self._data.endswith(b"\n"):
            return
        line, self._data = self._data, b""
        self._rest()
        answer = None
        with suppress(ValueError):
            answer = json.loads(line)
        self._on_answer(answer)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        """It has not hung up, so it is still the child that we have made."""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self._pid, signal.SIGKILL)
        self._on_answer(None)

    def end(self) -> None:
        """Let go of it, by which it ends."""
        self._rest()
        self._loop.unwatch(self._socket.fileno(), READ)
        self._socket.close()


def _serve(tokens: list[str], fd: int, parent: int) -> None:
    """In the child: answer each byte with a line, until the agent lets go."""
    try:
        become_child(parent)
        for name in os.listdir("/proc/self/fd"):  # workers' pipes and the link are not ours
            if int(name) > 2 and int(name) != fd:
                with suppress(OSError):
                    os.close(int(name))
        from zlaunch.system.gpu_use import GpuMeter  # the child alone pays for what it imports

        meter = GpuMeter(tokens)
        while os.read(fd, 1):
            data = json.dumps(meter.read()).encode("ascii") + b"\n"
            while data:
                data = data[os.write(fd, data) :]
    finally:
        os._exit(0)
