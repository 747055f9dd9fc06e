"""What is made by `frozen` is what `dataclass(frozen=True)` makes, as far as anybody looks."""

from __future__ import annotations

import dataclasses
from functools import cached_property

from zlaunch.frozen import frozen


@frozen
class Point:
    x: int
    y: int = 2
    secret: str = dataclasses.field(default="", repr=False)

    @cached_property
    def length(self) -> int:
        return self.x + self.y


@frozen
class Other:
    x: int
    y: int = 2
    secret: str = ""


def test_fields_are_what_it_is() -> None:
    point, same = Point(1), Point(1, 2)
    assert point.length == 3  # what is kept beside the fields is none
    assert point == same
    assert hash(point) == hash(same)
    assert point != Point(1, 3)
    assert point != Other(1, 2)
    assert point != (1, 2, "")
    assert repr(Point(1, secret="s")) == "Point(x=1, y=2)"


def test_it_is_a_dataclass() -> None:
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "secret": ""}
    match Point(3):
        case Point(x, y):
            assert (x, y) == (3, 2)
