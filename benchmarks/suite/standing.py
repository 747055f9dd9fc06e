"""Eight ranks that stand still, for what a launcher costs while the user's code runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import proc
from harness.contender import Contender
from harness.process import running, worker_pids

RANKS = 8
_SETTLE = 2.0  # seconds from the last rank's start until the launcher rests


@contextmanager
def standing_launcher(contender: Contender, directory: Path) -> Iterator[set[int]]:
    """Start the ranks; the value is the launcher's own processes, none of them a rank."""
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    with running(contender) as process:
        workers = worker_pids(directory, RANKS, process)
        time.sleep(_SETTLE)
        yield proc.own_processes(process.pid, workers)
