"""The end of a job's time, as Slurm knows it: said once, some time before it comes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from zlaunch.launcher.forwarding import signal_name
from zlaunch.spec.allocation import Allocation
from zlaunch.system.loop import READ, Loop, read_chunk

AHEAD = 300.0  # seconds
_END = re.compile(r"\bEndTime=([0-9T:-]+)")
_CHUNK = 64 << 10  # bytes


class TimeLeft:
    """Tells through `say` when the time of the job is nearly over.

    Where the environment does not name the end, Slurm is asked; again before it is told, since
    an operator may have moved it. Nothing waits for the answer.
    """

    def __init__(self, allocation: Allocation, loop: Loop, say: Callable[[str], None]) -> None:
        self._job = allocation.job
        self._loop = loop
        self._say = say
        self._end = allocation.end
        self._asking: subprocess.Popen[bytes] | None = None
        self._told = False
        if self._end is None:
            self._ask()
        else:
            self._plan()

    @property
    def end(self) -> float | None:
        """When that is, in seconds of the epoch, as far as it is known by now."""
        return self._end

    def warned(self, signum: int) -> None:
        """Say that a signal went to the ranks, as schedulers send one before the time is over."""
        left = f"; {self._left()}" if self._end is not None else ""
        self._say(f"{signal_name(signum)}: passed on to all ranks{left}")
        self._told = True

    def close(self) -> None:
        """Ask no longer."""
        if self._asking is not None:
            self._asking.kill()
            self._over(self._asking)

    def _plan(self) -> None:
        if self._end is not None:
            self._loop.after(max(0.0, self._end - AHEAD - time.time()), self._ask)

    def _ask(self) -> None:
        """Have scontrol say when the job ends."""
        if self._asking is not None or self._told:
            return
        try:
            asking = subprocess.Popen(
                ["scontrol", "show", "job", self._job],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._tell()
            return
        assert asking.stdout is not None
        self._asking = asking
        os.set_blocking(asking.stdout.fileno(), False)
        said = bytearray()
        self._loop.watch(asking.stdout.fileno(), READ, partial(self._read, asking, said))

    def _read(self, asking: subprocess.Popen[bytes], said: bytearray) -> None:
        assert asking.stdout is not None
        data = read_chunk(asking.stdout.fileno(), _CHUNK)
        if data:
            said += data
        elif data is not None:
            self._loop.unwatch(asking.stdout.fileno(), READ)
            self._over(asking)
            end = read_end(said.decode(errors="replace"))
            self._end = end if end is not None else self._end
            self._tell()

    def _over(self, asking: subprocess.Popen[bytes]) -> None:
        self._asking = None
        with suppress(subprocess.TimeoutExpired):
            asking.wait(timeout=1.0)
        if asking.stdout is not None:
            asking.stdout.close()

    def _tell(self) -> None:
        """Say it if it is time to, else when it is."""
        if self._end is None or self._told:
            return
        if self._end - time.time() > AHEAD + 1.0:
            self._plan()
            return
        self._told = True
        self._say(self._left())

    def _left(self) -> str:
        assert self._end is not None
        left, at = self._end - time.time(), time.strftime("%H:%M:%S", time.localtime(self._end))
        if left <= 0:
            return f"the time of Slurm's job {self._job} was over at {at}"
        minutes, seconds = divmod(round(left), 60)
        words = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        return f"the time of Slurm's job {self._job} ends in {words}, at {at}"


def read_end(text: str) -> float | None:
    """Return when a job ends, in seconds of the epoch, from what `scontrol show job` prints.

    That is in local time. None for a job without a limit.
    """
    found = _END.search(text)
    if found is None:
        return None
    try:
        return time.mktime(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
