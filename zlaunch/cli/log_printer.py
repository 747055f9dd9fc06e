"""Shows what ranks wrote, line by line under their tags, as the console of the run did."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from zlaunch.cli.log_choice import Choice, hosts_of
from zlaunch.run.record import RunRecord
from zlaunch.spec.ranks import rank_labels
from zlaunch.system.console import ProgressLines
from zlaunch.system.lines import LineCutter
from zlaunch.system.rundir import RunDir


def labels_of(record: RunRecord) -> dict[int, str]:
    """The text of each rank's tag."""
    hosts = hosts_of(record)
    try:
        nodes = len(record.plan["nodes"])
    except (KeyError, TypeError):
        hosts = {}
    if not hosts:  # the ranks are known all the same
        hosts, nodes = dict.fromkeys(range(record.world_size), ""), 1
    return rank_labels(hosts, record.world_size, nodes)


class Printer:
    """Writes tagged lines to stdout; a progress bar as its last state."""

    def __init__(self, run: RunDir, choice: Choice, skip: Mapping[int, int] | None = None) -> None:
        """`skip` is how many of the lines that are wanted are left out first, of each rank."""
        labels = labels_of(run.read_record())
        self._tags = {rank: f"{labels[rank]} | ".encode() for rank in choice.ranks}
        self._cutters = {rank: LineCutter() for rank in choice.ranks}
        filters = {rank: choice.filter() for rank in choice.ranks}
        self._filters = {rank: one for rank, one in filters.items() if one is not None}
        self._skip = {rank: count for rank, count in (skip or {}).items() if count}
        self._progress = ProgressLines(self._print)
        self._write_out = sys.stdout.buffer.write

    def take(self, rank: int, data: bytes) -> None:
        """Show the lines that `data` completes, and now and then the state of a progress bar."""
        self._show(rank, self._cutters[rank].feed(data))
        if not self._filters:
            self._progress.update(rank, self._tags[rank], self._cutters[rank])

    def lose(self, rank: int, size: int) -> None:
        """Say that bytes of the rank's log are gone."""
        self.flush()
        words = f"rank {rank}: {size:,} bytes of its log are gone (--log-max)"
        print(f"zlaunch: {words}", file=sys.stderr)  # noqa: T201

    def finish(self, ranks: Iterable[int] | None = None) -> None:
        """Show last lines that have no newline."""
        for rank in self._cutters if ranks is None else ranks:
            self._show(rank, self._cutters[rank].finish())
        self.flush()

    def flush(self) -> None:
        """Let the reader have what has been shown so far."""
        sys.stdout.buffer.flush()

    def _show(self, rank: int, block: bytes) -> None:
        if rank in self._filters:
            block = self._wanted(rank, block)
        if block:
            tag = self._tags[rank]
            lines = block.replace(b"\n", b"\n" + tag)
            self._write_out(tag)
            self._write_out(memoryview(lines)[: -len(tag)])

    def _wanted(self, rank: int, block: bytes) -> bytes:
        wanted = self._filters[rank]
        lines = [line for line in block.split(b"\n")[:-1] if wanted(line)]
        skip = self._skip.pop(rank, 0)
        if skip > len(lines):
            self._skip[rank] = skip - len(lines)
        return b"".join(line + b"\n" for line in lines[skip:])

    def _print(self, data: bytes) -> None:
        self._write_out(data)


class Counter:
    """Counts the lines of one rank that are wanted, and shows none."""

    def __init__(self, choice: Choice) -> None:
        self._cutter = LineCutter()
        self._wanted = choice.filter()
        self.count = 0

    def take(self, data: bytes) -> None:
        """Count the lines that `data` completes."""
        self._add(self._cutter.feed(data))

    def finish(self) -> None:
        """Count a last line that has no newline."""
        self._add(self._cutter.finish())

    def _add(self, block: bytes) -> None:
        lines = block.split(b"\n")[:-1]
        self.count += len(lines if self._wanted is None else list(filter(self._wanted, lines)))
