"""Findings of lint, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zlaunch.dsconfig.finding import LEVELS, Finding
from zlaunch.dsconfig.lint import count

_WIDEST = 160  # columns of a line that is shown


def lines(findings: Sequence[Finding], name: str, text: str = "") -> Iterator[str]:
    """Each finding with its place and the way out; with the line itself where `text` is given."""
    source = text.removeprefix("\ufeff").split("\n")
    for finding in findings:
        yield one_line(finding, name)
        if text and finding.place is not None and finding.place.line <= len(source):
            yield from _shown(source[finding.place.line - 1], finding.place.column)
        if finding.mend:
            yield f"  hint: {finding.mend}"


def one_line(finding: Finding, name: str) -> str:
    """`ds.json:4:3: error: ... [unknown-key]`."""
    place = f":{finding.place.line}:{finding.place.column}" if finding.place else ""
    return f"{name}{place}: {finding.level}: {finding.text}  [{finding.code}]"


def _shown(line: str, column: int) -> Iterator[str]:
    """The line with a caret below; tabs are kept, so that it stands right."""
    line = line.rstrip("\r")
    start = max(0, column - 1 - _WIDEST // 2) if len(line) > _WIDEST else 0
    part = line[start : start + _WIDEST]
    before = "".join("\t" if char == "\t" else " " for char in part[: column - 1 - start])
    if part.strip():
        yield f"    {part}"
        yield f"    {before}^"


def counted(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning`; "" where there is nothing to count."""
    words = []
    for level in LEVELS:
        number = count(findings, level)
        if number:
            words.append(f"{number} {level}{'' if number == 1 else 's'}")
    return ", ".join(words)
