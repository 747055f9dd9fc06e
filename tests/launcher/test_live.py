"""`--live` shows what it can, and ends nothing else where it cannot."""

from __future__ import annotations

from typing import Any

from zlaunch.launcher.live import Live


class Console:
    """Has a footer of 80 columns and 24 rows, which keeps what it is to show."""

    size = 80, 24

    def __init__(self) -> None:
        self.said: list[str] = []
        self.shown: list[Any] = []

    def make_footer(self) -> Console:
        return self

    def show(self, lines: Any) -> None:
        self.shown.append(lines)

    def say(self, text: str, _level: str = "info") -> None:
        self.said.append(text)


class Loop:
    def on_signal(self, *_: Any) -> None:
        pass


class View:
    def look(self, show: Any) -> None:
        self.show = show


def test_a_picture_that_cannot_be_drawn_ends_no_training() -> None:
    def paint(snapshot: Any, *_: int) -> Any:
        return [(f"{1 / snapshot['loss']}", 3)]

    console, view = Console(), View()
    live: Any = Live
    live(Loop(), console, view, lambda: paint, str)
    view.show({"loss": 2.0})
    assert console.shown[-1][1:] == [("0.5", 3)]
    view.show({"loss": 0.0})
    view.show({"loss": 1.0})
    assert console.shown[1:] == [[]]
    (said,) = console.said
    assert said.startswith("--live cannot go on (ZeroDivisionError: ")
    assert said.endswith("; the run does")
