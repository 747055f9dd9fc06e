"""Findings of lint, for a person."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from zlaunch.cli.screen import fitted
from zlaunch.dsconfig.finding import LEVELS, Finding
from zlaunch.dsconfig.lint import count
from zlaunch.errors import ConfigError

_WIDEST = 160  # columns of a line that is shown
_INDENT = "    "
_LEAST = 20  # and on the narrowest screen


def lines(
    findings: Sequence[Finding], name: str, text: str = "", width: int | None = None
) -> Iterator[str]:
    """Each finding with its place and the way out; with the line itself where `text` is given.

    All fits into `width` columns where a screen has only so many.
    """
    widest = _WIDEST if width is None else max(_LEAST, min(_WIDEST, width - len(_INDENT)))
    source = text.removeprefix("\ufeff").split("\n")
    for finding in findings:
        yield fitted(one_line(finding, name), width)
        if text and finding.place is not None and finding.place.line <= len(source):
            yield from _shown(source[finding.place.line - 1], finding.place.column, widest)
        if finding.mend:
            yield fitted(f"  hint: {finding.mend}", width)


def one_line(finding: Finding, name: str) -> str:
    """`ds.json:4:3: error: ... [unknown-key]`."""
    place = f":{finding.place.line}:{finding.place.column}" if finding.place else ""
    return f"{name}{place}: {finding.level}: {finding.text}  [{finding.code}]"


def _shown(line: str, column: int, widest: int) -> Iterator[str]:
    """The line, or the part around the column, with a caret below.

    Tabs are kept where the whole line has room, so that the caret stands right.
    """
    line = line.rstrip("\r")
    if len(line.expandtabs()) > widest:
        line = line.replace("\t", " ")
    start = max(0, column - 1 - widest // 2) if len(line) > widest else 0
    part = line[start : start + widest]
    part = f"…{part[1:]}" if start else part
    part = f"{part[:-1]}…" if start + widest < len(line) else part
    before = "".join("\t" if char == "\t" else " " for char in part[: column - 1 - start])
    if part.strip():
        yield f"{_INDENT}{part}"
        yield f"{_INDENT}{before}^"


def refuse_errors(findings: Sequence[Finding], name: str, aside: str = "") -> None:
    """Raise ConfigError with everything that was found where one of it is an error."""
    if not count(findings, "error"):
        return
    shown = [finding for finding in findings if finding.level != "note"]
    listed = [f"{name} cannot be used as it is: {counted(shown)}{aside}"]
    for finding in shown:
        listed.append(f"  {one_line(finding, name)}")
        listed += [f"    hint: {finding.mend}"] if finding.mend else []
    raise ConfigError("\n".join(listed))


def as_note(finding: Finding, name: str) -> str:
    """A warning in one line, with the way out."""
    return f"{one_line(finding, name)}{f'; {finding.mend}' if finding.mend else ''}"


def say(findings: Sequence[Finding], name: str) -> None:
    """Tell warnings on stderr."""
    for finding in findings:
        if finding.level == "warning":
            print(f"zlaunch: {as_note(finding, name)}", file=sys.stderr)  # noqa: T201


def counted(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning`; "" where there is nothing to count."""
    words = []
    for level in LEVELS:
        number = count(findings, level)
        if number:
            words.append(f"{number} {level}{'' if number == 1 else 's'}")
    return ", ".join(words)
