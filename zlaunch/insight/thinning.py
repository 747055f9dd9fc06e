"""Keeps the shape of a series of any length in little memory."""

from __future__ import annotations

from collections.abc import Iterator

from zlaunch.frozen import frozen


@frozen
class Point:
    """One value, and where it stands: the step and the epoch where they were told, and when.

    `at` is in seconds since the epoch, or the number of a line where no time is known. A step
    that was worked out need not be whole.
    """

    step: float | None
    epoch: float | None
    at: float
    value: float


class Thinned:
    """A series of which at most 2 * `limit` + 4 points are kept, however many are added.

    Of each stretch of equally many points the lowest and the highest stay, in their order, and
    of the whole the first and the last: so no spike is lost.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit + limit % 2  # two stretches are made one
        self._full: list[tuple[_Numbered, _Numbered]] = []  # the lowest, the highest
        self._length = 1  # points of a full stretch
        self._low: _Numbered | None = None  # of the stretch that grows
        self._high: _Numbered | None = None
        self._grown = 0
        self.count = 0
        self.first: Point | None = None
        self.last: Point | None = None

    def add(self, point: Point) -> None:
        """Take one more point."""
        if self._low is None or point.value < self._low[1].value:
            self._low = (self.count, point)
        if self._high is None or point.value > self._high[1].value:
            self._high = (self.count, point)
        if self.first is None:
            self.first = point
        self.last = point
        self.count += 1
        self._grown += 1
        if self._grown == self._length:
            self._full.append((self._low, self._high))
            self._low = self._high = None
            self._grown = 0
            if len(self._full) == self._limit:
                self._halve()

    def _halve(self) -> None:
        """Make one stretch of two."""
        self._full = [
            (min(one[0], two[0], key=_value), max(one[1], two[1], key=_value))
            for one, two in zip(self._full[::2], self._full[1::2], strict=True)
        ]
        self._length *= 2

    def __iter__(self) -> Iterator[Point]:
        """What is kept, in its order."""
        kept = dict(numbered for pair in self._full for numbered in pair)
        kept.update(filter(None, (self._low, self._high)))
        if self.first is not None and self.last is not None:
            kept.update({0: self.first, self.count - 1: self.last})
        yield from (kept[number] for number in sorted(kept))

    @property
    def lowest(self) -> Point | None:
        """The lowest of all that were added."""
        return min(self, key=lambda point: point.value, default=None)

    @property
    def highest(self) -> Point | None:
        """The highest of all that were added."""
        return max(self, key=lambda point: point.value, default=None)


_Numbered = tuple[int, Point]


def _value(numbered: _Numbered) -> float:
    return numbered[1].value
