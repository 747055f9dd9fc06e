"""Where the ranks' output goes: each rank's file, the console, and insight."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from zlaunch.insight import config_dump
from zlaunch.insight.config_dump import Dump
from zlaunch.insight.deepspeed_lines import maybe_interesting, parse_line
from zlaunch.insight.loss_scale import LossScaleState, observe, summarize
from zlaunch.insight.loss_scale_state import Summary
from zlaunch.system.console import Console
from zlaunch.system.lines import LineCutter
from zlaunch.system.rundir import RunDir

_LOOK_BACK = 256 << 10  # bytes


class _File:
    """A file of the run that only grows; a disk that fills up does not end the training."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def append(self, data: bytes) -> str | None:
        """Write all of `data`; return the system's word the first time that it fails."""
        if self._fd is None:
            return None
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.close()
            return error.strerror
        return None

    def close(self) -> None:
        """Close the file; what is appended afterwards is left out."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class Output:
    """Takes what the ranks write, in the order in which it comes."""

    def __init__(
        self,
        run: RunDir,
        console: Console,
        ranks: Sequence[int],
        loss_scale: LossScaleState,
        *,
        verbose: bool = False,
    ) -> None:
        """Open all files. `verbose` shows what is folded otherwise, save overflow lines.

        Raises InputError where that is not possible.
        """
        self._run = run
        self._console = console
        self._logs = {rank: _File(run.open_log(rank)) for rank in ranks}
        self._events = _File(run.open_events())
        self._loss_scale = loss_scale
        self._dumps: dict[int, Dump] = {}
        self._fold_dumps = not verbose

    def take(self, rank: int, data: bytes) -> None:
        """Keep `data` as it is, and show its complete lines."""
        self._complain(self._logs[rank].append(data))
        self._show(rank, self._console.cut(rank, data))

    def end(self, rank: int) -> None:
        """Show the rank's last line where it has no newline; the rank writes no more."""
        self._show(rank, self._console.cut_last(rank))
        self._logs[rank].close()

    def event(self, fields: Mapping[str, Any]) -> None:
        """Add an object to events.jsonl."""
        self._complain(self._events.append(json.dumps(fields).encode() + b"\n"))

    def _complain(self, reason: str | None) -> None:
        if reason is not None:
            self._console.say(
                f"the logs are incomplete from here on: {self._run.path}: {reason}", "warning"
            )

    def _show(self, rank: int, block: bytes) -> None:
        if self._fold_dumps and (rank in self._dumps or config_dump.begins(block)):
            block = self._fold_dump(rank, block)
        if maybe_interesting(block):
            block = self._look(rank, block)
        self._console.show(rank, block)

    def _fold_dump(self, rank: int, block: bytes) -> bytes:
        """Leave DeepSpeed's print of its configuration out, and say where it is."""
        shown: list[bytes] = []
        dump = self._dumps.pop(rank, None)
        for line in block.splitlines(keepends=True):
            dump, belongs = config_dump.observe(dump, line)
            if not belongs:
                shown.append(line)
            if dump is not None and dump.over:
                where = f"zlaunch logs show --rank {rank}"
                self._console.say(f"DeepSpeed's configuration, {dump.folded} lines: {where}")
        if dump is not None and not dump.over:
            self._dumps[rank] = dump
        return b"".join(shown)

    def _look(self, rank: int, block: bytes) -> bytes:
        """Read the lines that DeepSpeed prints of the loss scale; fold or mark them."""
        shown: list[bytes] = []
        for line in block.splitlines(keepends=True):
            said = parse_line(line.decode(errors="replace"))
            if said is None:
                shown.append(line)
                continue
            self._loss_scale, reading = observe(self._loss_scale, rank, said)
            if reading.mark != "fold":
                shown.append(self._console.mark + line if reading.mark == "mark" else line)
            if reading.notices:
                # What came before is shown first, so that the words stand where they belong.
                self._console.show(rank, b"".join(shown))
                shown.clear()
            for notice in reading.notices:
                self._console.say(notice.text, notice.level)
        return b"".join(shown)

    def loss_scale(self) -> Summary | None:
        """The verdict on the loss scale, None where no sign of one was seen."""
        return summarize(self._loss_scale)

    def last_lines(self, rank: int, count: int) -> list[bytes]:
        """The last lines that `rank` wrote, as a screen shows them."""
        return last_lines(self._run, rank, count)

    def close(self) -> None:
        """Close all files."""
        for file in (*self._logs.values(), self._events):
            file.close()


def last_lines(run: RunDir, rank: int, count: int, end: int | None = None) -> list[bytes]:
    """Read the last `count` lines of a rank's log before byte `end`, as a screen shows them.

    Looks back 256 KiB at most.
    """
    data, whole = _end_of_log(run, rank, end)
    if not whole:
        data = data.partition(b"\n")[2]
    cutter = LineCutter()
    lines = (cutter.feed(data) + cutter.finish()).split(b"\n")[:-1]
    return lines[-count:] if count > 0 else []


def line_end(run: RunDir, rank: int) -> int:
    """The offset behind the last complete line of a rank's log, in bytes."""
    try:
        size = run.log(rank).stat().st_size
    except OSError:
        return 0
    unfinished = _end_of_log(run, rank, size)[0].rpartition(b"\n")[2]
    return size - len(unfinished)


def _end_of_log(run: RunDir, rank: int, end: int | None) -> tuple[bytes, bool]:
    """The bytes before `end`, and whether they are all from the beginning."""
    try:
        with run.log(rank).open("rb") as file:
            size = file.seek(0, os.SEEK_END) if end is None else end
            start = max(0, size - _LOOK_BACK)
            return os.pread(file.fileno(), size - start, start), start == 0
    except OSError:
        return b"", True
