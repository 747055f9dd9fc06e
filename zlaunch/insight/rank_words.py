"""What one rank printed, made plain: without colours, progress bars and tags of launchers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zlaunch.frozen import frozen

LONGEST = 4096
"""Characters of a line that are looked at: more than the longest message known."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[A-Za-z]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?)")
# torch puts it before each line of a traceback, and before what its C++ side logs.
_RANK_TAG = re.compile(r"\[rank\d{1,9}\]: ?")


@frozen
class RankWords:
    """`lines` are plain; those in `tagged` had torch's `[rankN]: `, as a whole traceback has."""

    rank: int
    lines: tuple[str, ...]
    tagged: frozenset[int]


def plain(rank: int, words: Iterable[str]) -> RankWords:
    """Make the words of a rank plain."""
    lines, tagged = [], set()
    for number, word in enumerate(words):
        line = plain_line(word)
        if line.startswith("[rank"):
            tag = _RANK_TAG.match(line)
            if tag is not None:
                line = line[tag.end() :]
                tagged.add(number)
        lines.append(line)
    return RankWords(rank, tuple(lines), frozenset(tagged))


def plain_line(word: str) -> str:
    """One line as a terminal would show it at last, without colours; what is too long is cut."""
    if "\r" in word:
        word = word.rstrip("\r").rpartition("\r")[2]
    if len(word) > LONGEST:
        word = word[:LONGEST]
    return without_colours(word)


def without_colours(text: str) -> str:
    """The text without what a terminal obeys."""
    return _ANSI.sub("", text) if "\x1b" in text else text
