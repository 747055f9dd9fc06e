"""DeepSpeed's operators, built before the ranks start that would all wait for them.

`workers/build_operators.py` does it. Whatever goes wrong there, the ranks are started as ever.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from functools import partial
from typing import Callable

from zlaunch.agent.private_directory import PrivateDirectory
from zlaunch.spec.worker import Operators, WorkerSpec
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.spawn import Process, children, sweep

_CHUNK = 64 << 10
_TO_END = 3.0  # seconds from TERM to KILL, and from there until nobody waits any longer


class OperatorBuild:
    """One look at what is missing, and its build. `on_over` is called once, from the loop."""

    def __init__(
        self,
        loop: Loop,
        operators: Operators,
        spec: WorkerSpec,
        env: Mapping[str, str],
        enter: Callable[[], None],
        note: Callable[[str, str], None],
        on_over: Callable[[], None],
    ) -> None:
        """`spec` and `env` are those of the first rank; raises OSError and the like."""
        self._loop = loop
        self._note = note
        self._on_over = on_over
        self._within = operators.within
        self._pending = b""
        self._op = ""
        self._lock = ""  # of what it builds by itself, until that is over
        self._ending = False
        self._killed = False
        self._others = children()
        self._directory = PrivateDirectory()
        try:
            self._directory.make()
            for name, text in operators.files:
                self._directory.write(name, text)
            program = os.path.join(self._directory.path, operators.files[0][0])
            script = "" if spec.argv[1] == "-m" else spec.argv[1]
            argv = (spec.argv[0], program, *operators.arguments(script))
            self._process = Process(argv, env, spec.cwd, None, enter)
        except BaseException:
            self._directory.remove()
            raise
        loop.watch(self._process.fd, READ, self._read)
        self._timer: Timer = loop.after(self._within, self._give_up)

    def _read(self) -> None:
        data = read_chunk(self._process.fd, _CHUNK)
        if data is None:
            return
        if not data:
            self._finish()
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            told = json.loads(line)
            self._op, say = told["op"], told["say"]
        except (ValueError, TypeError, KeyError):
            return  # what hooks into the start of an interpreter has printed
        self._lock = told.get("lock", "")
        if self._ending:
            return
        if say:
            self._note(say, told.get("level", "info"))
        self._timer.cancel()
        self._timer = self._loop.after(self._within, self._give_up)

    def _give_up(self) -> None:
        what = self._op or "DeepSpeed's operators"
        self._note(
            f"{what}: not built within {self._within:g} s; the ranks start without", "warning"
        )
        self.end()

    def end(self, *, now: bool = False) -> None:
        """Have it end: by TERM, so that it takes its lock away, and soon or `now` by KILL."""
        if not self._ending:
            self._ending = True
            self._process.signal_group(signal.SIGTERM)
            self._wait(partial(self.end, now=True))
        if now and not self._killed:
            self._killed = True
            self._process.kill_group()
            self._wait(partial(self._finish, stuck=True))

    def _wait(self, then: Callable[[], None]) -> None:
        self._timer.cancel()
        self._timer = self._loop.after(_TO_END, then)

    def _finish(self, *, stuck: bool = False) -> None:
        """Go on; a process that hangs in the kernel is left to whoever sweeps at the end."""
        self._let_go()
        if not stuck:
            self._process.end_group()
            if self._ending or self._lock:  # compilers are in groups of their own
                sweep(self._others)
        if self._lock and not self._ending:
            self._tell_of_its_end()
        self._on_over()

    def _tell_of_its_end(self) -> None:
        """Somebody else has killed it: the kernel, where compilers take too much memory."""
        say = f"the build of {self._op} ended too early (out of memory?)"
        if os.path.exists(self._lock):
            say += f"; every rank will wait for {self._lock}: remove it"
        self._note(say, "warning")

    def drop(self) -> None:
        """Kill it and forget about it; the agent is leaving."""
        self._process.end_group()
        self._let_go()

    def _let_go(self) -> None:
        self._timer.cancel()
        self._loop.unwatch(self._process.fd, READ)
        os.close(self._process.fd)
        self._directory.remove()
