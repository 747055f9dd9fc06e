"""What ranks tell of their training: into metrics.jsonl, and the newest of each kept in memory.

What is told at any rate costs a bounded effort. Of each rank, 1,000 lines are read at once and then
100 a second; of each rank and source 1,000 objects are written at once and then one a second. Of
what comes faster the newest is taken, after a second at the latest.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from zlaunch.insight.metric_lines import MetricLines
from zlaunch.insight.time_left import seconds_left
from zlaunch.launcher.allowance import Allowance
from zlaunch.run.metrics import Metric, encode
from zlaunch.system.loop import Loop

if TYPE_CHECKING:
    from zlaunch.insight.deepspeed_lines import Line
    from zlaunch.insight.loss_scale_state import LossScaleState
    from zlaunch.insight.metrics import ReaderState, Told

_LINES = (1000, 100.0)  # of a rank that are read: at once, and a second
_OBJECTS = (1000, 1.0)  # of a rank and source that are written
_HELD = 1.0  # seconds at most from a line to its object in the file
_STEPS = 64  # of a rank that the time left is judged by
_APART = 0.5  # seconds between two of them
_SAME = ("at", "attempt", "rank", "source")

_Key = tuple[int, str]


class Metrics:
    """`append` takes lines for the file; without a loop they are written at the end only.

    `on_metric` gets what a rank tells as soon as it is read.
    """

    def __init__(self, append: Callable[[bytes], None], loop: Loop | None = None) -> None:
        self._append = append
        self._loop = loop
        self.on_metric: Callable[[Metric], None] = lambda _: None
        self._due = False
        self._allowed: dict[_Key, Allowance] = {}
        self._begin(0)

    def _begin(self, attempt: int) -> None:
        self._attempt = attempt
        self._ranks: dict[int, _Rank] = {}
        self._newest: dict[_Key, Metric] = {}
        self._held: dict[_Key, Metric] = {}

    def begin_attempt(self, attempt: int) -> None:
        """What comes from now on belongs to another attempt."""
        self._write_held()
        self._begin(attempt)

    # What ranks print

    def take(self, rank: int, data: bytes) -> None:
        """Read what a rank wrote."""
        known = self._ranks.get(rank)
        if known is None:
            known = self._ranks[rank] = _Rank()
        self._note(rank, known.take(data, time.monotonic()))
        if known.late is not None:
            self._wait()

    def take_deepspeed(
        self, rank: int, line: Line, before: LossScaleState, after: LossScaleState
    ) -> None:
        """Take in a line of DeepSpeed, with the states of the loss scale before and after it."""
        known = self._rank(rank)
        self._note(rank, known.take_deepspeed(line, before, after, time.monotonic()))
        if known.late_line is not None:
            self._wait()

    def end(self, rank: int) -> None:
        """The rank writes no more."""
        known = self._ranks.get(rank)
        if known is not None:
            self._note(rank, known.finish())

    def add(self, metric: Metric) -> None:
        """Take in a metric that somebody else has made, such as what a rank uses."""
        key = metric.rank, metric.source
        self._newest[key] = metric
        self._append(encode(metric))

    def _note(self, rank: int, told: Iterable[Told]) -> None:
        for one in told:
            metric = Metric(time.time(), self._attempt, rank, one.source, **one.fields)  # type: ignore[arg-type]
            self.on_metric(metric)
            key = rank, one.source
            known = self._newest.get(key)
            self._newest[key] = metric if known is None else _over(known, metric)
            if metric.step is not None:
                self._rank(rank).reached(one.source, metric.step, time.monotonic())
            self._hold(key, metric)

    def _rank(self, rank: int) -> _Rank:
        return self._ranks.setdefault(rank, _Rank())

    # Into the file

    def _hold(self, key: _Key, metric: Metric) -> None:
        """Keep it until the step is over, so that all that is told of one is one object."""
        held = self._held.get(key)
        if held is not None and held.step == metric.step is not None:
            metric = _over(held, metric)
        elif held is not None:
            allowed = self._allowed.get(key)
            if allowed is None:
                allowed = self._allowed[key] = Allowance(*_OBJECTS)
            if allowed.left(time.monotonic()):
                allowed.take(1)
                self._append(encode(held))
        self._held[key] = metric
        self._wait()

    def _wait(self) -> None:
        if not self._due and self._loop is not None:
            self._due = True
            self._loop.after(_HELD, self._time_is_up)

    def _time_is_up(self) -> None:
        self._due = False
        for rank, known in self._ranks.items():
            if known.late is not None or known.late_line is not None:
                self._note(rank, known.catch_up())
        self._write_held()

    def _write_held(self) -> None:
        if self._held:
            self._append(b"".join(map(encode, self._held.values())))
            self._held.clear()

    def close(self) -> None:
        """Write what was held."""
        self._write_held()

    # For others

    def newest(self) -> Iterator[Metric]:
        """The newest of each rank and source: all that was told last, whenever that was."""
        yield from self._newest.values()

    def seconds_left(self, rank: int) -> float | None:
        """How long the rank goes on, None where that is not known."""
        known = [
            metric
            for (of, _), metric in self._newest.items()
            if of == rank and metric.step is not None and metric.total is not None
        ]
        if not known:
            return None
        last = max(known, key=lambda metric: metric.at)
        steps = self._rank(rank).steps[last.source]
        return seconds_left(last.total or 0, steps, time.monotonic())

    @property
    def attempt(self) -> int:
        """The attempt that what comes now belongs to."""
        return self._attempt

    @property
    def ranks(self) -> list[int]:
        """Those of which anything is known."""
        return sorted({rank for rank, _ in self._newest})


class _Rank:
    """What is remembered of the output of one rank."""

    def __init__(self) -> None:
        self.lines = MetricLines()
        self.late: bytes | None = None  # the newest piece, where it came too fast to be read
        # the newest line of DeepSpeed's that came too fast, with the states around all of them
        self.late_line: tuple[Line, LossScaleState, LossScaleState] | None = None
        # when a step was reached, by whose words: two may count in different ways
        self.steps: dict[str, deque[tuple[float, int]]] = {}
        self._state: ReaderState | None = None
        self._allowed = Allowance(*_LINES)

    def take(self, data: bytes, now: float) -> Iterable[Told]:
        """Read what may be read of it."""
        left = self._allowed.left(now)
        pieces = self.lines.feed(data, left)
        if not pieces:
            return ()
        self._allowed.take(len(pieces))
        if not left:
            self.late = pieces[-1]
            return ()
        self.late = None
        return self._read(pieces)

    def catch_up(self) -> Iterator[Told]:
        """Read what is late."""
        late, self.late = self.late, None
        yield from self._read([] if late is None else [late])
        line, self.late_line = self.late_line, None
        yield from () if line is None else _of_deepspeed(*line)

    def take_deepspeed(
        self, line: Line, before: LossScaleState, after: LossScaleState, now: float
    ) -> Iterable[Told]:
        """Read it, where it may be read."""
        if self.late_line is not None:
            before = self.late_line[1]
        if not self._allowed.left(now):
            self.late_line = line, before, after
            return ()
        self.late_line = None
        self._allowed.take(1)
        return _of_deepspeed(line, before, after)

    def _read(self, pieces: list[bytes]) -> Iterator[Told]:
        from zlaunch.insight.metrics import ReaderState, read  # a start waits for none of it

        for piece in pieces:
            state = self._state or ReaderState()
            self._state, told = read(state, piece.decode(errors="replace"))
            yield from told

    def finish(self) -> Iterator[Told]:
        """Read what is left."""
        yield from self.catch_up()
        yield from self._read(self.lines.finish())
        if self._state is not None:
            from zlaunch.insight.metrics import flush

            self._state, told = flush(self._state)
            yield from told

    def reached(self, source: str, step: int, now: float) -> None:
        """Note when a step was reached; one that is behind others begins a new count."""
        steps = self.steps.setdefault(source, deque(maxlen=_STEPS))
        if steps and step < steps[-1][1]:
            steps.clear()
        if len(steps) > 1 and now - steps[-2][0] < _APART:
            steps.pop()
        steps.append((now, step))


def _of_deepspeed(line: Line, before: LossScaleState, after: LossScaleState) -> tuple[Told, ...]:
    from zlaunch.insight.metrics_deepspeed import read_deepspeed

    told = read_deepspeed(line, before, after)
    return () if told is None else (told,)


def _over(known: Metric, metric: Metric) -> Metric:
    """What was told last of each field; an overflow belongs to its own line."""
    fields = {
        name: value
        for name, value in vars(metric).items()
        if value is not None and name not in _SAME
    }
    overflow = metric.overflow or (known.overflow if known.step == metric.step else None)
    return replace(known, **{**fields, "at": metric.at, "overflow": overflow})
