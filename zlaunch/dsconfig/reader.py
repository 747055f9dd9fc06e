"""Reads a ds_config, JSON or hjson, and keeps where everything stands.

DeepSpeed reads its file with the hjson package: comments, trailing commas, no quotes. What JSON
does not have is noted as an `Oddity`, since Accelerate and transformers read JSON only, and since
hjson makes other values of some slips than were meant (`True,` is the text "True,").
"""

from __future__ import annotations

import math
import re
from typing import Any

from zlaunch.dsconfig.document import Document, Where
from zlaunch.dsconfig.reader_slips import Slips
from zlaunch.dsconfig.reader_text import UnreadableError, literal, many_lines, quoted

_DEEPEST = 100  # nobody nests deeper; Python's stack would
_END_OF_BARE = re.compile(r"[\r\n,}\]#]|//|/\*|$")
_END_OF_LINE = re.compile(r"[^\r\n]*")
_COMMENT = re.compile(r"\s*(#|//|/\*)")
_GROUPED = re.compile(r"\b\d{1,3},$")
_PAIRS = {"{": "}", "[": "]"}


def read_document(text: str) -> Document:
    """The document that `text` holds. Never raises: what cannot be read is a fatal oddity."""
    return _Reader(text.removeprefix("\ufeff")).read()


class _Reader(Slips):
    """Objects, lists, keys and values."""

    def read(self) -> Document:
        try:
            value = self._root()
            complete = True
        except UnreadableError as error:
            self.note(error.code, error.at, error.text, error.mend, fatal=True)
            value, complete = None, False
        except EOFError:  # of a config without braces
            self.note("unclosed", self.at, "a value is missing at the end", "write it", fatal=True)
            value, complete = None, False
        return Document(value, self.keys, self.values, tuple(self.oddities), complete)

    def _root(self) -> Any:
        self._refuse_nul()
        of_program = self.skip_assignment()
        char = self.next()
        if not char:
            raise UnreadableError("empty", 0, "this ds_config is empty", "write at least {}")
        value = self._value(()) if char in "{[" else self._without_braces()
        if self.next() and not of_program:
            raise UnreadableError(
                "syntax", self.at, "something follows the end of the config", "take it out"
            )
        return value

    def _refuse_nul(self) -> None:
        at = self.text.find("\0")
        if at >= 0:
            wide = self.text.count("\0") > len(self.text) // 3
            mend = "save it as UTF-8: this looks like UTF-16" if wide else "take it out"
            raise UnreadableError("nul", at, "a NUL byte stands here, which no JSON has", mend)

    def _without_braces(self) -> Any:
        """Hjson's object without braces, or else a single value, as hjson tries them."""
        start = self.at
        self.note("no-braces", start, "the file has no braces around it", "put it into {}")
        self.values[()] = self.place(start)
        try:
            return self._members((), "")
        except (UnreadableError, EOFError) as error:
            if any(oddity.fatal for oddity in self.oddities):
                raise  # read on behind a slip: hjson would read something else again
            noted, self.at, self.oddities = self.oddities, start, []
            try:
                value = self._value(())
            except (UnreadableError, EOFError):
                self.at = 0
            else:
                if not self.next():
                    return value
            self.oddities = noted
            raise error from None

    # Values

    def _value(self, where: Where) -> Any:
        char = self.next()
        self.values[where] = self.place(self.at)
        if len(where) > _DEEPEST:
            raise UnreadableError("syntax", self.at, "this is nested too deeply", "flatten it")
        if char in _PAIRS and char:
            start, self.at = self.at, self.at + 1
            inner = self._members if char == "{" else self._items
            return self._closed(inner, where, start)
        if char and char in "'\"":
            return self._quoted(where)
        meant = self.typographic() if char else None
        if meant is not None:
            return meant
        items = self.tuple(where) if char == "(" else None
        return items if items is not None else self._bare(where)

    def _closed(self, inner: Any, where: Where, start: int) -> Any:
        """What stands in brackets; the opening one is what a missing one is blamed on."""
        opening = self.text[start]
        try:
            return inner(where, _PAIRS[opening])
        except EOFError:
            place = self.place(start)
            raise UnreadableError(
                "unclosed",
                start,
                f"this {opening} is never closed",
                f"add {_PAIRS[opening]} where the part begun in line {place.line} ends",
            ) from None

    def _members(self, where: Where, closing: str) -> dict[str, Any]:
        table: dict[str, Any] = {}
        comma = -1
        while (char := self.next()) != closing:
            if not char:
                raise EOFError
            if char in "}]":
                raise self._wrong_bracket(char, closing)
            if comma == -2:
                self._missing_comma()
            start = self.at
            key = self._key()
            below = (*where, key)
            if key in table:
                self._duplicate(key, below, start)
            self.keys[below] = self.place(start)
            table[key] = self._value(below)
            comma = self._comma()
        self._end_of(closing, comma)
        return table

    def _items(self, where: Where, closing: str) -> list[Any]:
        items: list[Any] = []
        comma = -1
        while (char := self.next()) != closing:
            if not char:
                raise EOFError
            if char in "}]:":
                raise self._wrong_bracket(char, closing)
            if comma == -2:
                self._missing_comma()
            items.append(self._value((*where, len(items))))
            comma = self._comma()
        self._end_of(closing, comma)
        return items

    def _comma(self) -> int:
        """The offset of a comma that follows, else -2."""
        if self.next() != ",":
            return -2
        self.at += 1
        return self.at - 1

    def _end_of(self, closing: str, comma: int) -> None:
        if comma >= 0:
            self.note("trailing-comma", comma, "a comma before the end", "take it out")
        self.at += len(closing)

    def _missing_comma(self) -> None:
        """Noted behind what it should follow: there the line is the one to mend."""
        before = len(self.text[: self.at].rstrip())
        last = self.oddities[-1] if self.oddities else None
        if last is not None and last.place == self.place(before):
            return  # said already, of a value that ran on
        self.note("missing-comma", before, "a comma is missing here", "put one in")

    def _wrong_bracket(self, char: str, closing: str) -> UnreadableError:
        return UnreadableError(
            "unclosed",
            self.at,
            f"{char} stands where {closing or 'a key'} has to",
            "close it there",
        )

    def _duplicate(self, key: str, where: Where, start: int) -> None:
        first = self.keys[where]
        self.note(
            "duplicate-key",
            start,
            f'the key "{key}" stands twice in one object (first in line {first.line})',
            "DeepSpeed refuses this; keep one of them",
            fatal=True,
            where=where,
        )

    # Keys and texts

    def _key(self) -> str:
        char = self.text[self.at]
        start = self.at
        if self.text.startswith("'''", start):
            raise UnreadableError("syntax", start, "''' cannot hold a key", 'write it as "text"')
        if char in "'\"":
            key = self._quoted(())
        else:
            meant = self.typographic()
            key = self._bare_key() if meant is None else meant
        if self.next() != ":":
            self._not_a_colon(key, start)
        else:
            self.at += 1
        return key

    def _bare_key(self) -> str:
        start = self.at
        found = re.compile(r"[^\s:,{}\[\]]+").match(self.text, start)
        if not found:
            char = self.text[start]
            raise UnreadableError(
                "syntax",
                start,
                f"{char} stands where a key is expected",
                "take it out" if char in ",:" else "give the part a key",
            )
        self.at = found.end()
        comment = _COMMENT.match(self.text, self.at)
        if comment:
            text = f"a comment stands between the key {found[0]} and its colon"
            raise UnreadableError("syntax", comment.start(1), text, "move it")
        self.note("unquoted-key", start, f"the key {found[0]} has no quotes", f'write "{found[0]}"')
        return found[0]

    def _not_a_colon(self, key: str, start: int) -> None:
        """What stands behind a key instead; Python's and Ruby's signs are read on behind."""
        sign = re.compile("=>?").match(self.text, self.at)
        if sign:
            self.note(
                "syntax", self.at, f"{sign[0]} stands where a colon has to", "write :", fatal=True
            )
            self.at = sign.end()
            return
        before = _GROUPED.search(self.text[:start])
        if before and re.fullmatch(r"\d{3}(,\d{3})*", key):
            number = before[0] + key
            raise UnreadableError(
                "number",
                before.start(),
                f"{number} is no number of JSON",
                f"write {number.replace(',', '')}",
            )
        text = f'a colon is missing behind the key "{key}"'
        raise UnreadableError("syntax", self.at, text, "put one in")

    def _quoted(self, where: Where) -> str:
        start = self.at
        if self.text.startswith("'''", start):
            value, self.at = many_lines(self.text, start)
            self.note("many-lines", start, "''' is hjson", 'write it as one "text"', where=where)
            return value
        value, self.at = quoted(self.text, start)
        if self.text[start] == "'":
            self.note(
                "single-quotes",
                start,
                "JSON has no single quotes",
                'write "..."',
                where=where,
            )
        return value

    def _finite(self, where: Where, start: int, value: Any) -> None:
        """Note a number beyond all floats: hjson stumbles over it."""
        if isinstance(value, float) and math.isinf(value):
            written = self.text[start : self.at].strip()
            text = f"{written} is too large to be a number, and DeepSpeed cannot read it"
            self.note("number", start, text, "write a smaller one", fatal=True, where=where)

    def _bare(self, where: Where) -> Any:
        """A number, a word of JSON, or hjson's text without quotes, which ends with the line."""
        start = self.at
        char = self.text[start : start + 1]
        if not char:
            raise EOFError
        if char in ",:}]":
            raise UnreadableError(
                "syntax", start, f"{char} stands where a value is expected", "write the value"
            )
        for end in _END_OF_BARE.finditer(self.text, start):
            is_literal, value = literal(self.text[start : end.start()])
            if is_literal:
                self.at = end.start()
                self._finite(where, start, value)
                return value
            if end[0] in ("", "\r", "\n"):
                break
        found = _END_OF_LINE.match(self.text, start)
        raw = found[0] if found else ""
        return self.bare_text(where, raw.strip(), start + len(raw))
