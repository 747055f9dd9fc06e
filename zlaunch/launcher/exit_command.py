"""The command of `--on-exit`: run once, after all that the run has started is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from functools import partial

from zlaunch.launcher.report import describe_exit, duration
from zlaunch.run.messages import Exit
from zlaunch.system.console import Console
from zlaunch.system.loop import READ, Loop, Timer, read_chunk
from zlaunch.system.spawn import Process, adopt_orphans, sweep

LIMIT = 60.0
"""Seconds for the command, before it gets TERM."""

_GRACE = 5.0  # seconds from TERM to KILL
_SHELL = "/bin/sh"
_LABEL = "on-exit"
_CHUNK = 64 << 10  # bytes
_SHOWN = 1 << 20  # bytes of its output; a run may have ended where nobody looks
# Who hangs up may be the very one that is to be told.
_ENDS_IT = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


def run_exit_command(
    command: str, outcome: Mapping[str, str], env: Mapping[str, str], *, limit: float = LIMIT
) -> Exit | None:
    """Run `command` in the user's shell, with `outcome` in its environment beside `env`.

    What it writes is shown, what goes wrong is said. It has `limit` seconds, then it gets TERM and
    at last KILL; Ctrl-C does the same at once. Nothing that it leaves behind lives on. Returns how
    it ended, None where it could not be started.
    """
    loop = Loop()
    console = Console(loop, {0: _LABEL}, frozenset({0}), env)
    try:
        adopt_orphans()
        return _ExitCommand(loop, console, limit).run(command, {**env, **outcome})
    finally:
        console.close()
        loop.close()


class _ExitCommand:
    """Used once."""

    def __init__(self, loop: Loop, console: Console, limit: float) -> None:
        self._loop = loop
        self._console = console
        self._limit = limit
        self._process: Process | None = None
        self._end: Exit | None = None
        self._why = ""  # it was told to end
        self._taken = 0  # bytes of its output
        self._kill: Timer | None = None

    def run(self, command: str, env: Mapping[str, str]) -> Exit | None:
        # Before it can have ended, so that no end is missed.
        self._loop.on_signal([signal.SIGCHLD], lambda _: self._look())
        heard = [s for s in _ENDS_IT if signal.getsignal(s) is not signal.SIG_IGN]
        self._loop.on_signal(heard, self._interrupted)
        try:
            self._process = Process([_SHELL, "-c", command], env, None)
        except (OSError, ValueError) as error:
            self._console.say(f"--on-exit could not be started: {error}", "error")
            return None
        self._console.when_room(self._watch)
        self._watch()
        limit = self._loop.after(self._limit, self._too_long)
        self._look()
        self._loop.run()
        limit.cancel()
        self._tell()
        return self._end

    # Its output

    def _watch(self) -> None:
        assert self._process is not None
        if self._end is None:
            self._loop.watch(self._process.fd, READ, self._read)

    def _read(self) -> None:
        assert self._process is not None
        data = read_chunk(self._process.fd, _CHUNK)
        if data is not None:
            self._show(data)
        if data == b"" or self._console.full:
            self._loop.unwatch(self._process.fd, READ)

    def _show(self, data: bytes) -> None:
        room = max(0, _SHOWN - self._taken)
        self._taken += len(data)
        self._console.show(0, self._console.cut(0, data[:room]))

    # Its end

    def _look(self) -> None:
        assert self._process is not None
        if self._end is not None:
            return
        self._end = self._process.poll()
        if self._end is None:
            return
        self._process.end_group()
        sweep()
        while data := read_chunk(self._process.fd, _CHUNK):
            self._show(data)
        self._loop.unwatch(self._process.fd, READ)
        os.close(self._process.fd)
        self._console.show(0, self._console.cut_last(0))
        self._loop.stop()

    def _too_long(self) -> None:
        self._stop(f"--on-exit takes longer than {duration(self._limit)}")

    def _interrupted(self, signum: int) -> None:
        name = signal.Signals(signum).name
        if self._why:
            self._end_now(f"{name}: killing --on-exit")
        else:
            self._stop(f"{name}: --on-exit is stopped; again to kill at once")

    def _stop(self, why: str) -> None:
        assert self._process is not None
        if self._why or self._end is not None:
            return
        self._why = why
        self._console.say(why, "warning")
        self._process.signal_group(signal.SIGTERM)
        killing = f"--on-exit did not end within {duration(_GRACE)} of TERM: killing it"
        self._kill = self._loop.after(_GRACE, partial(self._end_now, killing))

    def _end_now(self, words: str) -> None:
        assert self._process is not None
        if self._end is None:
            self._console.say(words, "warning")
            self._process.kill_group()

    def _tell(self) -> None:
        left_out = self._taken - _SHOWN
        if left_out > 0:
            self._console.say(f"{left_out:,} more bytes of --on-exit are not shown", "warning")
        if self._end is not None and self._end.status:
            self._console.say(f"--on-exit failed: {describe_exit(self._end)}", "warning")
