"""What is neither JSON nor what hjson makes of it: Python, typographic quotes, odd spaces."""

from __future__ import annotations

import re
from typing import Any

from zlaunch.dsconfig.document import Where
from zlaunch.dsconfig.numbers import as_json
from zlaunch.dsconfig.reader_cursor import Cursor, is_odd_space
from zlaunch.dsconfig.reader_text import (
    UnreadableError,
    in_quotes,
    is_too_long,
    literal,
    literal_prefix,
    unbalanced,
)

_MEMBER_FOLLOWS = re.compile(r"""\s+("[^"\r\n]*"|'[^'\r\n]*'|\w+)\s*:""")
_ITEM_FOLLOWS = re.compile(r"""\s+["'\w+.-]""")
_WORD = re.compile(r"[A-Za-z_+-]+")
_PYTHON = {"True": ("true", True), "False": ("false", False), "None": ("null", None)}
_NO_NUMBER = frozenset({"nan", "inf", "infinity"})
# What may stand behind a value; what else does makes a text of it all.
_BEHIND = r"(?=\s*(?:[,:}\]#]|//|/\*|$))"
_TUPLE = re.compile(rf"\(([^()\[\]{{}}\r\n]*)\){_BEHIND}", re.MULTILINE)
_IN_QUOTES = re.compile(r"""(["'])[^"']*\1""")
# Double and single, high and low, and angles.
_QUOTES = "\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b\u00ab\u00bb\u2039\u203a"
_TYPOGRAPHIC = re.compile(
    rf"""[{_QUOTES}]([^{_QUOTES}"\r\n]*)[{_QUOTES}"]{_BEHIND}""", re.MULTILINE
)
# `ds_config = `, `const config: Config = `, `export default `; the object itself follows.
_ASSIGNED = re.compile(
    r"(?:(?:export|const|let|var|default|return)\s+)*(?:[\w.]+\s*(?::\s*[\w\[\], .]+?\s*)?=\s*)?"
    r"(?:dict\()?(?=\{)"
)
_PROGRAM = re.compile(r"(?:import\s+\w|from\s+[\w.]+\s+import\s|def\s+\w+\()")


class Slips(Cursor):
    """Goes on behind a slip with what was meant, so that it does not hide the next one."""

    def skip_assignment(self) -> bool:
        """Whether a program's `name =` stands before the object; the position is then behind it."""
        self.next()
        if _PROGRAM.match(self.text, self.at):
            raise UnreadableError(
                "program", self.at, "this is a program, not a ds_config", "give the config itself"
            )
        found = _ASSIGNED.match(self.text, self.at)
        if not found or not found[0]:
            return False
        before, start = found[0].strip(), self.at
        text = f"{before} is of a program; a ds_config is the {{...}} alone"
        self.note("program", start, text, f"take {before} out", fatal=True)
        self.at = found.end()
        return True

    def typographic(self) -> str | None:
        """The text in typographic quotes that begins here; None where none does."""
        found = _TYPOGRAPHIC.match(self.text, self.at)
        if not found:
            return None
        if "curly-quotes" not in self.said:
            self.said.add("curly-quotes")
            text = f'{found[0][0]} is a typographic quote; JSON knows the plain " alone'
            self.note(
                "curly-quotes", self.at, text, f'write "{found[1]}", and so everywhere', fatal=True
            )
        self.at = found.end()
        return found[1]

    def tuple(self, where: Where) -> list[Any] | None:
        """The items of Python's tuple that begins here; None where none does."""
        found = _TUPLE.match(self.text, self.at)
        parts = [part.strip() for part in found[1].split(",") if part.strip()] if found else []
        items = [literal(part) for part in parts]
        fit = zip(parts, items, strict=True)
        if not found or not all(known or _IN_QUOTES.fullmatch(part) for part, (known, _) in fit):
            return None
        text = f"{found[0]} is Python's tuple, and JSON has lists only"
        self.note(
            "python-tuple", self.at, text, f"write [{', '.join(parts)}]", fatal=True, where=where
        )
        self.at = found.end()
        return [
            value if known else part.strip("'\"")
            for part, (known, value) in zip(parts, items, strict=True)
        ]

    def bare_text(self, where: Where, line: str, end: int) -> Any:
        """A value without quotes, up to the end of its line: what was meant, or hjson's text."""
        start = self.at
        is_literal, value = literal(line)
        if is_literal:  # with a space behind it that JSON does not count as one
            self.at += len(line)
            self.note_odd_space()
            return value
        length = literal_prefix(line)
        follows = _ITEM_FOLLOWS if where and isinstance(where[-1], int) else _MEMBER_FOLLOWS
        if length and follows.match(line, length):
            self.at += length
            self.note("missing-comma", self.at, "a comma is missing here", "put one in", fatal=True)
            return literal(line[:length])[1]
        if length and is_odd_space(line[length : length + 1]):
            self.at += length
            self.note_odd_space()
            return literal(line[:length])[1]
        word = _WORD.match(line)
        name = word[0] if word else ""
        foreign = name in _PYTHON or name.lstrip("+-").lower() in _NO_NUMBER
        if foreign and re.match(r"[\s,}\]]|$", line[len(name) :]):
            return self._foreign_word(where, name, line)
        if is_too_long(line[:length]):
            self.at += length
            text = f"a number of {length} digits: no DeepSpeed reads it"
            self.note("number", start, text, "write a number that fits", fatal=True, where=where)
            return float("inf")
        value = re.split(r"[,}\]\s]", line, maxsplit=1)[0]
        number = as_json(value)
        if number not in (None, value) and line[len(value) :].strip()[:1] in (
            "",
            ",",
            "}",
            "]",
            "#",
            "/",
        ):
            return self._foreign_number(where, value, number, line, end)
        if line[-1:] == "," or unbalanced(line):
            value = re.split(r"[,}\]]", line, maxsplit=1)[0].strip()
            self.at += len(value)
            text = f"{value} has no quotes, so hjson takes all of {line} for the text"
            self.note("unquoted-text", start, text, in_quotes(value), fatal=True, where=where)
            return value
        self.at = end
        self.note("unquoted-text", start, f"{line} has no quotes", in_quotes(line), where=where)
        return line

    def _foreign_number(self, where: Where, value: str, number: str, line: str, end: int) -> Any:
        """A number that JSON spells otherwise: a text to hjson, which ends with the line."""
        text = f"{value} is no number of JSON"
        if line != value:
            self.note("number", self.at, text, f"write {number}", fatal=True, where=where)
            self.at += len(value)
            return literal(number)[1]
        self.note("number", self.at, text, f"write {number}", where=where)
        self.at = end
        return line

    def _foreign_word(self, where: Where, name: str, line: str) -> Any:
        """Python's words, and the numbers that are none."""
        start = self.at
        self.at += len(name)
        if name in _PYTHON:
            word, value = _PYTHON[name]
            fatal = line != name  # else DeepSpeed gets the text "True", and takes it for true
            said = f"{name} is Python; hjson takes {line if fatal else name} for a text"
            self.note("python-word", start, said, f"write {word}", fatal=fatal, where=where)
            return value if fatal else name
        said = f"{name} is no number of JSON, and a ds_config has no use for it"
        self.note("nan", start, said, "write a finite number", fatal=True, where=where)
        return float(name)
