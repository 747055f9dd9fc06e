"""A position in a text that is read, and what was found up to it."""

from __future__ import annotations

import bisect
import re

from zlaunch.dsconfig.document import Oddity, Position, Where
from zlaunch.dsconfig.reader_text import UnreadableError


class Cursor:
    """Goes through `text`; `keys` and `values` are where they stand, by their paths."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.keys: dict[Where, Position] = {}
        self.values: dict[Where, Position] = {}
        self.oddities: list[Oddity] = []

    def next(self) -> str:
        """Go on to what is neither space nor comment; the character there, "" at the end."""
        while True:
            while self.text[self.at : self.at + 1] in (" ", "\t", "\r", "\n"):
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

    def place(self, at: int) -> Position:
        """Line and column of an offset."""
        line = bisect.bisect_right(self.starts, at)
        return Position(line, at - self.starts[line - 1] + 1)

    def note(
        self, code: str, at: int, text: str, mend: str, *, fatal: bool = False, where: Where = ()
    ) -> None:
        """Keep what JSON does not have."""
        self.oddities.append(Oddity(code, self.place(at), text, mend, fatal, where))
