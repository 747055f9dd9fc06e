"""Ranks with children, and who of them is alive."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path
from types import TracebackType

from harness.case import Unmeasured
from harness.process import LIMIT, Running


class Family:
    """All ranks of a contender that run `workers/family.py`, and what they have started."""

    def __init__(self, directory: Path, ranks: int) -> None:
        self._directory = directory
        self._count = ranks
        self._handles: dict[int, int] = {}
        self.ranks: list[int] = []
        self.parents: set[int] = set()
        for path in directory.iterdir():
            path.unlink()

    def __enter__(self) -> Family:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill those that are left; a handle never means a stranger."""
        for handle in self._handles.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)

    def wait_up(self, process: Running) -> None:
        """Wait until all are there."""
        paths = [self._directory / f"up-{rank}" for rank in range(self._count)]
        while not all(path.exists() for path in paths):
            if not process.alive or process.elapsed() > LIMIT:
                raise Unmeasured(f"{sum(path.exists() for path in paths)} ranks came")
            time.sleep(0.02)
        for path in paths:
            rank, parent, *children = map(int, path.read_text().split())
            self.ranks.append(rank)
            self.parents.add(parent)
            for pid in (rank, *children):
                self._handles[pid] = os.pidfd_open(pid)

    def end(self, name: str, code: int) -> None:
        """Have a rank (go-0) or all (go) end with this code."""
        part = self._directory / f"part-{name}"
        part.write_text(str(code))
        part.rename(self._directory / name)

    def alive(self) -> tuple[int, int]:
        """How many ranks, and how many of their children."""
        poll = select.poll()
        for handle in self._handles.values():
            poll.register(handle, select.POLLIN)
        ended = {handle for handle, _ in poll.poll(0)}
        living = {pid for pid, handle in self._handles.items() if handle not in ended}
        ranks = len(living & set(self.ranks))
        return ranks, len(living) - ranks
