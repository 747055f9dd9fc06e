"""Work that may take its time, done in a forked child so that the agent's loop never waits.

A child can be killed, which a thread that hangs in a driver or on a dead file system cannot;
and what it loads (NVML, say) is gone with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from functools import partial
from typing import Any, Callable

from zlaunch.system.loop import READ, Loop, read_chunk
from zlaunch.system.spawn import die_with

_CHUNK = 64 << 10  # bytes
_CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)  # by the agent


class Aside:
    """One piece of work under way."""

    def __init__(
        self,
        loop: Loop,
        work: Callable[[], dict[str, Any]],
        within: float,
        on_answer: Callable[[dict[str, Any] | None], None],
    ) -> None:
        """Do `work` in a child, and pass its result on.

        That is a JSON object: of `work`, or `{"error": ...}`; None after `within` seconds.
        """
        self._loop = loop
        self._on_answer = on_answer
        self._data = b""
        self._fd, writing = os.pipe()
        os.set_blocking(self._fd, False)
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _in_child(work, writing, parent)
        os.close(writing)
        loop.watch(self._fd, READ, self._read)
        self._timer = loop.after(within, partial(self._end, killed=True))

    def _read(self) -> None:
        data = read_chunk(self._fd, _CHUNK)
        if data:
            self._data += data
        elif data is not None:
            self._end(killed=False)

    def _end(self, *, killed: bool) -> None:
        if killed:  # the leader of its group until we reap it, which only this loop does
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
        self._timer.cancel()
        self._loop.unwatch(self._fd, READ)
        os.close(self._fd)
        answer = None
        with contextlib.suppress(ValueError):
            answer = json.loads(self._data)
        self._on_answer(answer if isinstance(answer, dict) else None)


def become_child(parent: int) -> None:
    """In a forked child: be no agent any more, and end with it."""
    signal.set_wakeup_fd(-1)
    for signum in (*_CAUGHT, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    die_with(parent)
    os.setsid()


def _in_child(work: Callable[[], dict[str, Any]], writing: int, parent: int) -> None:
    """Work, answer, and end: nothing may go on in the agent's own code."""
    try:
        become_child(parent)
        try:
            answer = work()
        except Exception as error:  # a fault of ours; the node is not the worse for it
            answer = {"error": repr(error)}
        data = json.dumps(answer).encode("ascii")
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)
