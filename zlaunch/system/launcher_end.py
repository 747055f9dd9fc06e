"""Tells when the launcher of a run has ended, however it did.

It holds the lock of its run directory, and the kernel lets it go. Whoever waits for that lock is
woken then: no process id is looked at, which could be a stranger's by now, and nothing is polled.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading

from zlaunch.system.interruptible import interruptible
from zlaunch.system.loop import READ, Loop
from zlaunch.system.rundir import RunDir


class LauncherEnd:
    """`fd` becomes readable once the launcher of `run` has ended, or at once where it had."""

    def __init__(self, run: RunDir) -> None:
        self.fd, told = os.pipe()
        if not run.launcher_lives():
            os.close(told)  # the end of what can be read
            return
        lock = os.open(run.lock_path, os.O_RDONLY | os.O_CLOEXEC)
        # The lock can only be waited for by a thread of its own; it holds up no exit of ours.
        threading.Thread(target=_wait, args=(lock, told), daemon=True).start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, for `seconds` at most; return whether it has come."""
        loop = Loop()
        try:
            with interruptible(loop):
                loop.watch(self.fd, READ, loop.stop)
                if seconds is not None:
                    loop.after(seconds, loop.stop)
                loop.run()
        finally:
            loop.close()
        return bool(select.select([self.fd], [], [], 0)[0])

    def close(self) -> None:
        """Wait no more."""
        os.close(self.fd)


def _wait(lock: int, told: int) -> None:
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.close(lock)
    os.close(told)
