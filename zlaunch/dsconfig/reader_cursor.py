"""A position in a text that is read, and what was found up to it."""

from __future__ import annotations

import bisect
import re
import unicodedata

from zlaunch.dsconfig.document import Oddity, Position, Where
from zlaunch.dsconfig.reader_text import UnreadableError

_SPACES = (" ", "\t", "\r", "\n")
_UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad"  # of no width: they come with pasted text


class Cursor:
    """Goes through `text`; `keys` and `values` are where they stand, by their paths."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.keys: dict[Where, Position] = {}
        self.values: dict[Where, Position] = {}
        self.oddities: list[Oddity] = []
        self.said: set[str] = set()  # codes that are noted once: the whole file has the slip

    def next(self) -> str:
        """Go on to what is neither space nor comment; the character there, "" at the end."""
        while True:
            while (char := self.text[self.at : self.at + 1]) in _SPACES or is_odd_space(char):
                if char not in _SPACES:
                    self.note_odd_space()
                self.at += 1
            two = self.text[self.at : self.at + 2]
            if not (two.startswith("#") or two in ("//", "/*")):
                return two[:1]
            start = self.at
            self.note("comment", start, "JSON has no comments", "take it out")
            closing = self.text.find("*/" if two == "/*" else "\n", start + 2)
            if two == "/*" and closing < 0:
                raise UnreadableError("unclosed", start, "this /* is never closed", "add */")
            self.at = len(self.text) if closing < 0 else closing + (2 if two == "/*" else 0)

    def note_odd_space(self) -> None:
        """Keep a space that JSON does not count as one; the first of a file stands for all."""
        if "odd-space" in self.said:
            return
        self.said.add("odd-space")
        char = self.text[self.at]
        name = unicodedata.name(char, "a control character").lower()
        text = f"{name} (U+{ord(char):04X}) stands here, which is no space to JSON"
        mend = "write plain spaces; so wherever it stands"
        self.note("odd-space", self.at, text, mend, fatal=True)

    def place(self, at: int) -> Position:
        """Line and column of an offset."""
        line = bisect.bisect_right(self.starts, at)
        return Position(line, at - self.starts[line - 1] + 1)

    def note(
        self, code: str, at: int, text: str, mend: str, *, fatal: bool = False, where: Where = ()
    ) -> None:
        """Keep what JSON does not have."""
        self.oddities.append(Oddity(code, self.place(at), text, mend, fatal, where))


def is_odd_space(char: str) -> bool:
    """Whether a character shows as a space, or not at all, and is none to JSON."""
    return char != "" and char not in _SPACES and (char.isspace() or char in _UNSEEN)
