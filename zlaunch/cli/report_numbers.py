"""The numbers of a run: from its metrics.jsonl, else from what its ranks printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO

from zlaunch.frozen import frozen
from zlaunch.insight.curves import Curves
from zlaunch.insight.deepspeed_lines import parse_line
from zlaunch.insight.loss_scale import LossScaleState, observe
from zlaunch.insight.metrics import ReaderState, Told, flush, read
from zlaunch.insight.metrics_deepspeed import read_deepspeed
from zlaunch.insight.peer_log_tags import styles, untag
from zlaunch.insight.rank_words import without_colours
from zlaunch.run.metrics import Metric, decode
from zlaunch.run.record import RunRecord
from zlaunch.system.rundir import RunDir

_LONGEST = 64 << 10  # bytes of a line
_FROM_THE_END = 64 << 20  # bytes of a rank's log, where there is no metrics.jsonl
_RANKS = 8  # of which the logs are read then
_SAMPLE = 3000  # lines by which it is known how a launcher tags them
_MOST_RANKS = 4096
LINES = 10**9
"""A line of attempt A has its number and A times this for a time."""


@frozen
class Numbers:
    """`timed`: the times of the curves are times, else numbers of lines."""

    curves: Curves
    timed: bool = True
    notes: tuple[str, ...] = ()


def curves_of_run(run: RunDir, record: RunRecord, attempts: int) -> Numbers:
    """Read metrics.jsonl; where no rank told anything there, the logs of the lowest ranks."""
    curves = Curves()
    try:
        with run.metrics.open("rb") as file:
            for line in _lines(file):
                metric = decode(line)
                if metric is not None and metric.rank < record.world_size:
                    curves.take(metric)
    except FileNotFoundError:
        pass
    if not curves.empty:
        return Numbers(curves)
    told = False
    for attempt in range(max(1, attempts)):
        scale = _Scale()
        for rank in range(min(record.world_size, _RANKS)):
            told = _of_log(run, _Taker(curves.take, scale, rank, attempt)) or told
    if not told:
        return Numbers(curves)
    said = "No metrics were written down; the curves are read from what the ranks printed."
    return Numbers(curves, timed=False, notes=(said,))


def _of_log(run: RunDir, taker: _Taker) -> bool:
    """Read the log of a rank; say whether it told anything."""
    path = run.log(taker.rank, taker.attempt)
    if not path.is_file():  # a pipe would be waited for
        return False
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _FROM_THE_END))
            for number, line in enumerate(_lines(file), 1):
                taker.line(line.decode("utf-8", "replace"), number)
            taker.end()
    except OSError:
        return False
    return taker.told


def curves_of_log(file: BinaryIO) -> Curves:
    """Read a log in which all ranks stand; the file is at its beginning, and can be rewound."""
    curves = Curves()
    sample = [_text(line) for line in islice(_lines(file), _SAMPLE)]
    tags = styles([without_colours(line) for line in sample])
    takers: dict[int, _Taker] = {}
    scale = _Scale()
    file.seek(0)
    for number, line in enumerate(_lines(file), 1):
        tagged = untag(without_colours(_text(line)), tags)
        rank = tagged.rank or 0
        if rank not in takers and len(takers) < _MOST_RANKS:
            takers[rank] = _Taker(curves.take, scale, rank, 0)
        if rank in takers:
            takers[rank].line(tagged.text, number)
    for taker in takers.values():
        taker.end()
    return curves


class _Scale:
    """What the lines of all ranks in an attempt tell of the loss scale, which they share."""

    def __init__(self) -> None:
        self._state = LossScaleState()

    def read(self, rank: int, text: str) -> tuple[Told, ...]:
        line = parse_line(text)
        if line is None:
            return ()
        before = self._state
        self._state, _ = observe(before, rank, line)
        told = read_deepspeed(line, before, self._state)
        return () if told is None else (told,)


class _Taker:
    """Reads the lines of one rank in one attempt."""

    def __init__(
        self, take: Callable[[Metric], None], scale: _Scale, rank: int, attempt: int
    ) -> None:
        self._take, self._scale = take, scale
        self.rank, self.attempt = rank, attempt
        self._state = ReaderState()
        self._number = 0
        self.told = False

    def line(self, text: str, number: int) -> None:
        """Read one; progress bars overwrite themselves within it."""
        self._number = number
        for piece in text.rstrip("\n").split("\r"):
            self._state, told = read(self._state, piece)
            self._give((*told, *self._scale.read(self.rank, piece)))

    def end(self) -> None:
        """There are no more."""
        self._state, told = flush(self._state)
        self._give(told)

    def _give(self, told: tuple[Told, ...]) -> None:
        for one in told:
            self.told = True
            fields: dict[str, Any] = dict(one.fields)
            at = float(self.attempt * LINES + self._number)
            self._take(Metric(at, self.attempt, self.rank, one.source, **fields))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace").rstrip("\n")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """All lines; a longer one comes in pieces."""
    while line := file.readline(_LONGEST):
        yield line
