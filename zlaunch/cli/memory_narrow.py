"""Text for a narrow screen: lines end between words, and never within a number and its unit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

_LEAST = 12  # columns; on a narrower screen nothing helps
_KEPT = "\0"  # stands for a space at which no line may end
_UNIT = re.compile(r"(?<=\d) (?=GiB|MiB|GPUs?\b|B\b|M\b|%|tokens\b|parameters\b)")


def wrapped(text: str, width: int, indent: int = 2) -> str:
    """`text` in lines of at most `width` columns; the later ones are indented a little more."""
    if len(text) <= width:
        return text
    indent += len(text) - len(text.lstrip())
    kept = _UNIT.sub(_KEPT, text)
    lines = textwrap.wrap(
        kept,
        max(width, _LEAST),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace(_KEPT, " ")


def listed(pairs: Iterable[tuple[str, str]], width: int) -> str:
    """Names with their numbers at the right; a number that has no room stands in the next line."""
    lines: list[str] = []
    width = max(width, _LEAST)
    for name, value in pairs:
        if len(name) + 1 + len(value) <= width:
            lines.append(f"{name}{value:>{width - len(name)}}".rstrip())
            continue
        indent = " " * (len(name) - len(name.lstrip()) + 2)
        lines += textwrap.wrap(name, width, subsequent_indent=indent, drop_whitespace=False)
        lines += [f"{value:>{width}}"] if value else []
    return "\n".join(line.rstrip() for line in lines)


def broken_command(words: list[str], width: int | None) -> str:
    """A command as a shell reads it; in several lines where the screen has no room for it."""
    whole = f"  {' '.join(words)}"
    if width is None or len(whole) <= width:
        return whole
    lines = [f"  {words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) + 2 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return " \\\n".join(lines)
