"""Whose line is whose in the log of any launcher: its tags are found out and taken off.

host:3 | text      3 | text      zlaunch
[rank3]: text      [rank3]:[E1130 ...    torch itself, on errors; kept, since it marks them
[default3]:text                  torchrun --tee: the local rank
worker-1: text                   pdsh, as deepspeed uses it
3: text                          srun -l
2026-11-30T01:50:53.2Z text      kubectl logs --timestamps and the like
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zlaunch.frozen import frozen

_TORCH = re.compile(r"\[rank(\d{1,9})\]:")
_MOST_HOSTS = 4096


@frozen
class Tagged:
    """A line without its tags, and what these said."""

    text: str
    rank: int | None = None
    host: str | None = None


@frozen
class Style:
    """One kind of tag; `share` of a log's lines have it where a log has it at all."""

    name: str
    pattern: re.Pattern[str]
    share: float


_TIME = r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(?:Z|[+-]\d\d:?\d\d)?) "
# No host has the name of a launcher.
_HOST = r"(?!(?:zlaunch|srun|slurmstepd): )(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*): "
_TEXT = r"?(?P<text>.*)"


def _style(name: str, tag: str, share: float) -> Style:
    return Style(name, re.compile(tag + _TEXT, re.DOTALL), share)


_STYLES = (
    _style("time", _TIME, 0.9),
    _style("zlaunch", r"(?:(?P<host>[\w.@-]+):)? {0,6}(?P<rank>\d{1,7}) *\| ", 0.4),
    _style("tee", r"\[(?!rank)[A-Za-z_]+(?P<rank>\d{1,6})\]: ", 0.3),
    _style("srun", r" {0,6}(?P<rank>\d{1,7}): ", 0.7),
    _style("host", _HOST, 0.9),
)


def styles(sample: Sequence[str]) -> tuple[Style, ...]:
    """Find out, from some lines of a log, which tags they have, from the outside in."""
    found: list[Style] = []
    lines = [line for line in sample if line.strip()]
    while (style := _outermost(lines, found)) is not None:
        found.append(style)
        matches = [(style.pattern.match(line), line) for line in lines]
        bare = [line if match is None else match["text"] for match, line in matches]
        lines = [line for line in bare if line.strip()]
    return tuple(found)


def _outermost(lines: Sequence[str], taken: Sequence[Style]) -> Style | None:
    for style in _STYLES:
        hits = [match for match in map(style.pattern.match, lines) if match is not None]
        enough = len(hits) >= max(2, style.share * len(lines))
        if style not in taken and enough and _plausible(style, hits):
            return style
    return None


def _plausible(style: Style, hits: Sequence[re.Match[str]]) -> bool:
    """Whether hosts repeat, as names do, and `Error: ` at the beginning of lines does not."""
    if style.name != "host":
        return True
    hosts = {match["host"] for match in hits}
    return len(hosts) <= max(1, min(_MOST_HOSTS, len(hits) // 4))


def untag(line: str, found: Sequence[Style]) -> Tagged:
    """Take the tags off."""
    rank: int | None = None
    host: str | None = None
    for style in found:
        match = style.pattern.match(line)
        if match is None:
            continue
        groups = match.groupdict()
        line = groups["text"]
        if groups.get("rank") is not None:
            rank = int(groups["rank"])
        host = groups.get("host") or host
    if line.startswith("[rank"):
        tag = _TORCH.match(line)
        if tag is not None:
            rank = int(tag[1])
    return Tagged(line, rank, host)
