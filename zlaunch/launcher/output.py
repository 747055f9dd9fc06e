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
from zlaunch.insight.loss_scale_state import Mark, Notice, Summary
from zlaunch.launcher.last_words import LastWords
from zlaunch.system.console import Console
from zlaunch.system.rundir import RunDir


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
        self._ends = {rank: LastWords() for rank in ranks}
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
        self._ends[rank].add(block)
        in_dump = rank in self._dumps or (self._fold_dumps and config_dump.begins(block))
        if in_dump or maybe_interesting(block):
            block = self._look(rank, block)
        self._console.show(rank, block)

    def _look(self, rank: int, block: bytes) -> bytes:
        """Read the lines that DeepSpeed prints; fold or mark them, and say what they mean.

        Returns what is still to be shown. Lines before a notice are shown before it, so that
        the words stand where they belong.
        """
        shown: list[bytes] = []
        for line in block.splitlines(keepends=True):
            folded, notices = self._observe_dump(rank, line)
            if not folded:
                mark, more = self._observe_loss_scale(rank, line)
                notices += more
                if mark != "fold":
                    shown.append(self._console.mark + line if mark == "mark" else line)
            if notices:
                self._console.show(rank, b"".join(shown))
                shown.clear()
            for notice in notices:
                self._console.say(notice.text, notice.level)
        return b"".join(shown)

    def _observe_dump(self, rank: int, line: bytes) -> tuple[bool, tuple[Notice, ...]]:
        """Say whether the line belongs to DeepSpeed's print of its configuration."""
        if not self._fold_dumps:
            return False, ()
        dump, belongs = config_dump.observe(self._dumps.pop(rank, None), line)
        if dump is None:
            return belongs, ()
        if not dump.over:
            self._dumps[rank] = dump
            return belongs, ()
        where = f"zlaunch logs show {self._run.id} --rank {rank}"
        return belongs, (
            Notice("info", f"DeepSpeed's configuration, {dump.folded} lines: {where}"),
        )

    def _observe_loss_scale(self, rank: int, line: bytes) -> tuple[Mark, tuple[Notice, ...]]:
        said = parse_line(line.decode(errors="replace"))
        if said is None:
            return "show", ()
        self._loss_scale, reading = observe(self._loss_scale, rank, said)
        return reading.mark, reading.notices

    def loss_scale(self) -> Summary | None:
        """The verdict on the loss scale, None where no sign of one was seen."""
        return summarize(self._loss_scale)

    def last_words(self, rank: int) -> list[bytes]:
        """The last lines that `rank` wrote, with its last traceback whole."""
        return self._ends[rank].words()

    def close(self) -> None:
        """Close all files."""
        for file in (*self._logs.values(), self._events):
            file.close()
