"""What a run told in numbers, gathered line by line into curves: bounded, however long it was."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zlaunch.frozen import frozen
from zlaunch.insight.thinning import Point, Thinned
from zlaunch.run.metrics import SYSTEM, Metric

QUANTITIES: Final = (
    "loss", "eval_loss", "lr", "loss_scale", "grad_norm",
    "samples_per_second", "tokens_per_second", "step_seconds",
)  # fmt: skip
USAGES: Final = ("gpu_memory", "rss")

_STRETCHES = 600  # of a curve
_STRETCHES_OF_USE = 150  # there is a curve for each rank
_RANKS = 8  # with a curve of their own: the lowest that tell
_ATTEMPTS = 12  # the latest
_MOST_RANKS = 4096


@frozen
class Curve:
    """One quantity as one rank told it in one attempt.

    `broken` are the places where it was not a number or not finite, with the last value before;
    `told` counts all values, `points` are those that are kept of them.
    """

    quantity: str
    rank: int
    attempt: int
    source: str
    points: tuple[Point, ...]
    told: int
    broken: tuple[Point, ...] = ()
    broken_told: int = 0


class _Growing:
    """A curve that grows."""

    def __init__(self) -> None:
        self.good, self.broken = Thinned(_STRETCHES), Thinned(_STRETCHES // 4)

    def add(self, metric: Metric, value: float) -> None:
        last = self.good.last.value if self.good.last is not None else 0.0
        finite = math.isfinite(value)
        point = Point(metric.step, metric.epoch, metric.at, value if finite else last)
        (self.good if finite else self.broken).add(point)


class Curves:
    """Takes metrics in the order of arrival."""

    def __init__(self) -> None:
        self._growing: dict[tuple[str, int, int, str], _Growing] = {}
        self._scale: float | None = None
        self.usage: dict[str, dict[int, Thinned]] = {name: {} for name in USAGES}
        self.gpu_total: dict[int, int] = {}
        self.overflows = Thinned(2 * _STRETCHES)
        self.skipped: int | None = None
        self.step: int | None = None
        self.total: int | None = None
        self._steps: dict[int, Thinned] = {}
        self.first_steps: dict[tuple[int, int], float] = {}
        self.last_at: float | None = None
        self._dropped: set[tuple[str, int, int, str]] = set()

    def take(self, metric: Metric) -> None:
        """Take one line of metrics.jsonl, or what was read from a line of a log."""
        if not 0 <= metric.rank < _MOST_RANKS or metric.attempt < 0:
            return
        self.last_at = max(metric.at, self.last_at or 0.0)
        if metric.source == SYSTEM:
            self._take_usage(metric)
            return
        if metric.step is not None:
            self.step = metric.step
            self._take_step(metric, metric.step)
            self.first_steps.setdefault((metric.attempt, metric.rank), metric.at)
        self.total = self.total if metric.total is None else metric.total
        self.skipped = self.skipped if metric.skipped is None else metric.skipped
        for quantity in QUANTITIES:
            value = getattr(metric, quantity)
            if value is not None:
                self._grow(quantity, metric).add(metric, value)
        self._take_overflow(metric)

    def _take_step(self, metric: Metric, step: int) -> None:
        if metric.rank not in self._steps:
            if len(self._steps) == _RANKS:
                return
            self._steps[metric.rank] = Thinned(_STRETCHES)
        self._steps[metric.rank].add(Point(step, None, metric.at, step))

    def _take_overflow(self, metric: Metric) -> None:
        """An overflow stands at the scale that was tried.

        What is told is the scale afterwards; it is higher than the last one that is known where
        the scale had grown, of which DeepSpeed says nothing.
        """
        before, told = self._scale, metric.loss_scale
        if told is not None and math.isfinite(told):
            self._scale = told
        if metric.overflow:
            scale = max(before or 0.0, self._scale or 0.0) or 1.0
            self.overflows.add(Point(metric.step, metric.epoch, metric.at, scale))

    def _take_usage(self, metric: Metric) -> None:
        for name in USAGES:
            value = getattr(metric, name)
            if value is not None:
                series = self.usage[name].get(metric.rank)
                if series is None:
                    series = self.usage[name][metric.rank] = Thinned(_STRETCHES_OF_USE)
                series.add(Point(None, None, metric.at, float(value)))
        if metric.gpu_memory_total is not None:
            self.gpu_total[metric.rank] = metric.gpu_memory_total

    def _grow(self, quantity: str, metric: Metric) -> _Growing:
        key = (quantity, metric.attempt, metric.rank, metric.source)
        if key not in self._growing and key not in self._dropped:
            self._growing[key] = _Growing()
            self._keep_few(quantity)
        return self._growing.get(key) or _Growing()  # which nobody keeps

    def _keep_few(self, quantity: str) -> None:
        keys = [key for key in self._growing if key[0] == quantity]
        ranks = sorted({key[2] for key in keys})[:_RANKS]
        attempts = sorted({key[1] for key in keys})[-_ATTEMPTS:]
        for key in keys:
            if key[2] not in ranks or key[1] not in attempts:
                self._dropped.add(key)
                del self._growing[key]

    def of(self, quantity: str) -> tuple[Curve, ...]:
        """The curves of a quantity; where a rank tells it in several ways, the fullest one."""
        fullest: dict[tuple[int, int], tuple[str, _Growing]] = {}
        for (name, attempt, rank, source), growing in self._growing.items():
            if name != quantity:
                continue
            other = fullest.get((attempt, rank))
            if other is None or growing.good.count > other[1].good.count:
                fullest[attempt, rank] = (source, growing)
        return tuple(
            Curve(quantity, rank, attempt, source, tuple(one.good), one.good.count,
                  tuple(one.broken), one.broken.count)
            for (attempt, rank), (source, one) in sorted(fullest.items())
        )  # fmt: skip

    def left_out(self, quantity: str) -> bool:
        """Whether there were more ranks or attempts than have a curve."""
        return any(key[0] == quantity for key in self._dropped)

    @property
    def reach(self) -> tuple[float, float] | None:
        """The lowest and the highest step that was told."""
        ends = [end for one in self._steps.values() for end in (one.lowest, one.highest) if end]
        values = [end.value for end in ends]
        return (min(values), max(values)) if values else None

    def placed(self, points: Iterable[Point]) -> tuple[Point, ...]:
        """The points, with a step also where none was told: between those told around it."""
        told = sorted(self._steps[min(self._steps)], key=lambda p: p.at) if self._steps else []
        times = [point.at for point in told]
        return tuple(
            replace(point, step=_between(told, bisect(times, point.at), point.at))
            if point.step is None and told
            else point
            for point in points
        )

    @property
    def empty(self) -> bool:
        """Whether no rank told anything of its training."""
        return not self._growing and not self.overflows.count


def _between(told: Sequence[Point], after: int, at: float) -> float:
    """The step at a time, of which so many of the points are `after` one."""
    if after in (0, len(told)):
        return told[min(after, len(told) - 1)].value
    one, two = told[after - 1], told[after]
    if two.value <= one.value or two.at <= one.at:  # the next attempt has begun
        return one.value
    return one.value + (two.value - one.value) * (at - one.at) / (two.at - one.at)


@frozen
class Spread:
    """What all ranks use at one time: the lowest, the one in the middle, the highest."""

    at: float
    low: float
    middle: float
    high: float


def spread(series: Mapping[int, Sequence[Point]], bins: int = 200) -> tuple[Spread, ...]:
    """Lay many curves over each other: for each of so many stretches of time one Spread."""
    times = [point.at for points in series.values() for point in points]
    if not times:
        return ()
    first = min(times)
    width = (max(times) - first) / bins or 1.0
    highest: dict[int, dict[int, float]] = {}
    for rank, points in series.items():
        for point in points:
            ranks = highest.setdefault(min(bins - 1, int((point.at - first) / width)), {})
            ranks[rank] = max(point.value, ranks.get(rank, point.value))
    found = []
    for place, ranks in sorted(highest.items()):
        values = sorted(ranks.values())
        middle = values[len(values) // 2]
        found.append(Spread(first + (place + 0.5) * width, values[0], middle, values[-1]))
    return tuple(found)
