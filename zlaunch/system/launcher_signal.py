"""Signals a launcher that does not listen yet, and nobody else in its stead."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from zlaunch.system.processes import has_open
from zlaunch.system.rundir import RunDir


def signal_launcher(run: RunDir, pid: int, signum: int) -> bool:
    """Send a signal to the launcher of `run`, which wrote that `pid` is its own.

    Returns False where the process of that number is not it, such as one of another machine: it
    must have the lock of the run open, which somebody must hold.
    """
    with suppress(OSError):
        handle = os.pidfd_open(pid)  # first: then it cannot become a stranger's
        try:
            is_it = has_open(pid, os.path.realpath(run.lock_path)) and run.launcher_lives()
            if is_it:
                signal.pidfd_send_signal(handle, signum)
            return is_it
        finally:
            os.close(handle)
    return False
