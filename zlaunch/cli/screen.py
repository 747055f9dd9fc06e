"""The width of the terminal that stdout is, and text that ends its lines there between words."""

from __future__ import annotations

import shutil
import sys

from zlaunch.cli.memory_narrow import wrapped


def screen_width() -> int | None:
    """Columns of the terminal on stdout; None where stdout is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fitted(text: str, width: int | None) -> str:
    """`text` for a screen of that width; as it is where there is none."""
    return text if width is None else wrapped(text, width)


def in_last_column(cells: list[str], text: str, width: int | None) -> str:
    """A row of a table whose last cell has several lines where it has no room in one."""
    before = "".join(f"{cell}  " for cell in cells)
    if width is None or len(before) + len(text) <= width:
        return (before + text).rstrip()
    if width - len(before) < _ROOM:
        return f"{before.rstrip()}\n{fitted(f'    {text}', width)}"
    lines = wrapped(text, width - len(before), indent=0).split("\n")
    return f"\n{' ' * len(before)}".join([before + lines[0], *lines[1:]])


_ROOM = 30  # columns that a last cell needs to be read well
