"""The view of a run (`board_text.py`) in the colours of a terminal, by Rich."""

from __future__ import annotations

import io
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from zlaunch.cli.board_text import Screen, screen_lines
from zlaunch.cli.board_values import Snapshot, width_of

_STYLES = {
    "": "",
    "dim": "dim",
    "strong": "bold",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "alarm": "bold white on red",
    "accent": "cyan",
}


class Painter:
    """Paints snapshots for a terminal: `env` says what colours it has, and `encoding` what signs.

    NO_COLOR leaves bold and the like.
    """

    def __init__(self, env: Mapping[str, str], encoding: str) -> None:
        self._fancy = encoding.lower().replace("-", "") in {"utf8", "utf8sig"}
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            force_terminal=True,
            _environ=env,
            highlight=False,
            soft_wrap=True,
            legacy_windows=False,
        )

    def paint(self, snapshot: Snapshot, columns: int, rows: int) -> list[tuple[str, int]]:
        """Return lines for a screen of that size: each with its escapes, and its width."""
        lines = screen_lines(snapshot, Screen(columns, rows, self._fancy))
        return [self._painted(Text.assemble(*((t, _STYLES[s]) for t, s in line))) for line in lines]

    def _painted(self, text: Text) -> tuple[str, int]:
        self._console.print(text, end="", soft_wrap=True)
        painted = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        return painted, width_of(text.plain)
