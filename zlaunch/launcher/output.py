"""Where the ranks' output goes: each rank's file, the console, and insight."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zlaunch.errors import InputError
from zlaunch.insight import config_dump
from zlaunch.insight.config_dump import Dump
from zlaunch.insight.deepspeed_lines import maybe_interesting, parse_line
from zlaunch.insight.loss_scale import LossScaleState, observe, summarize
from zlaunch.insight.loss_scale_state import Mark, Notice, Summary
from zlaunch.launcher.last_words import LastWords
from zlaunch.launcher.metrics import Metrics
from zlaunch.system.arrivals import Arrivals
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop
from zlaunch.system.rank_log import GrowingFile, RankLog
from zlaunch.system.rundir import RunDir


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
        log_max: int | None = None,
        loop: Loop | None = None,
        attempt: int = 0,
    ) -> None:
        """Open all files. `verbose` shows what is folded otherwise, save overflow lines.

        The attempt with this number comes first.
        Of what a rank writes in an attempt the newest `log_max` bytes are kept; None: all.
        With a `loop` metrics are in their file within a second, else at the end.

        Raises InputError where that is not possible.
        """
        self._run = run
        self._console = console
        self._log_max = log_max
        self._attempt = attempt
        self._logs = {rank: RankLog(run, rank, attempt, log_max) for rank in ranks}
        self._arrivals = Arrivals(run)
        self._events = GrowingFile(run.open_events())
        self._metrics_file = GrowingFile(run.open_metrics())
        self.metrics = Metrics(lambda lines: self._complain(self._metrics_file.append(lines)), loop)
        self.metrics.begin_attempt(attempt)
        self._at_first = self._loss_scale = loss_scale
        self._ends = {rank: LastWords() for rank in ranks}
        self._dumps: dict[int, Dump] = {}
        self._fold_dumps = not verbose

    def take(self, rank: int, data: bytes) -> None:
        """Keep `data` as it is, and show its complete lines."""
        log = self._logs[rank]
        self._complain(self._arrivals.note(rank, self._attempt, log.size, len(data)))
        self._complain(log.append(data))
        self.metrics.take(rank, data)
        self._show(rank, self._console.cut(rank, data))

    def end(self, rank: int) -> None:
        """Show the rank's last line where it has no newline; the rank writes no more."""
        self.metrics.end(rank)
        self._show(rank, self._console.cut_last(rank))
        self._logs[rank].close()

    def begin_attempt(self, attempt: int) -> None:
        """Go on with files of their own for what the ranks of another attempt write.

        Where one cannot be made, what its rank writes is shown and not kept.
        """
        self._attempt = attempt
        self._loss_scale = self._at_first
        self.metrics.begin_attempt(attempt)
        self._ends = {rank: LastWords() for rank in self._logs}
        self._dumps.clear()
        for rank, file in self._logs.items():
            file.close()
            try:
                self._logs[rank] = RankLog(self._run, rank, attempt, self._log_max)
            except InputError as error:
                self._complain(str(error))

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
        before = self._loss_scale
        self._loss_scale, reading = observe(before, rank, said)
        self.metrics.take_deepspeed(rank, said, before, self._loss_scale)
        return reading.mark, reading.notices

    def loss_scale(self) -> Summary | None:
        """The verdict on the loss scale, None where no sign of one was seen."""
        return summarize(self._loss_scale)

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks."""
        return tuple(self._logs)

    def held_words(self, rank: int) -> list[str]:
        """All lines of `rank` that are still in memory, of which `last_words` are the end."""
        return [line.decode("utf-8", "backslashreplace") for line in self._ends[rank].held()]

    def last_words(self, rank: int) -> list[bytes]:
        """The last lines that `rank` wrote, with its last traceback whole."""
        return self._ends[rank].words()

    def close(self) -> None:
        """Close all files."""
        self.metrics.close()
        for log in self._logs.values():
            log.close()
        self._arrivals.close()
        self._events.close()
        self._metrics_file.close()
