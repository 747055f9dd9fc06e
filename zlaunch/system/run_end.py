"""Tells when a run is over, also one that waits for Slurm, or runs on another machine."""

from __future__ import annotations

import time

from zlaunch.system.launcher_end import LauncherEnd
from zlaunch.system.rundir import RunDir

_LOOK_EVERY = 1.0  # seconds; Slurm tells nobody, and is asked less often than that


def wait_for_end(run: RunDir, seconds: float | None = None) -> bool:
    """Wait until the run is over, for `seconds` at most; return whether it is.

    A submitted run has a launcher only while its job runs, and perhaps one after the other.
    """
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        end = LauncherEnd(run)
        try:
            if not end.wait(None if until is None else max(0.0, until - time.monotonic())):
                return False
        finally:
            end.close()
        if not run.has_record():
            return True
        record = run.read_record()
        if record.is_over or not record.job:
            return True
        left = _LOOK_EVERY if until is None else until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(_LOOK_EVERY, left))
