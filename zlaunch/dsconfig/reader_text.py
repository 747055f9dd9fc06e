"""The texts and numbers of JSON and hjson: quoted, over many lines, without quotes."""

from __future__ import annotations

import difflib
import math
import re
from typing import Any

_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_CHUNK = re.compile(r"""[^'"\\\x00-\x1f]*""")
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/"}
_ESCAPES |= {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNICODE = re.compile(r"[0-9a-fA-F]{4}")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_NOTHING = frozenset({"undefined", "nil", "NULL", "Null"})
# hjson makes an integer of a float below this that has no fraction.
_WHOLE_BELOW = 1e10
_LONGEST_NUMBER = 4000  # Python refuses to read longer integers


class UnreadableError(Exception):
    """Text that cannot be read on: a code, the offset of what is wrong, and words for the user."""

    def __init__(self, code: str, at: int, text: str, mend: str) -> None:
        super().__init__(text)
        self.code, self.at, self.text, self.mend = code, at, text, mend


def literal(text: str) -> tuple[bool, Any]:
    """Whether `text` is a number or one of JSON's three words, and which value that is.

    A float without a fraction is an integer where hjson makes it one.
    """
    text = text.strip(" \t")
    if text in _WORDS:
        return True, _WORDS[text]
    found = _NUMBER.fullmatch(text)
    if not found or len(text) > _LONGEST_NUMBER:
        return False, None
    if not (found[2] or found[3]):
        return True, int(text)
    value = float(text)
    if math.isinf(value):
        return True, value
    return True, int(value) if value == int(value) and abs(value) < _WHOLE_BELOW else value


def is_too_long(text: str) -> bool:
    """Whether `text` is a number of more digits than Python reads."""
    return len(text) > _LONGEST_NUMBER and _NUMBER.fullmatch(text) is not None


def literal_prefix(text: str) -> int:
    """The length of the number or word that `text` begins with; 0 where it does not."""
    found = _NUMBER.match(text) or re.match(r"(true|false|null)\b", text)
    return found.end() if found else 0


def quoted(text: str, start: int) -> tuple[str, int]:
    """The string whose opening quote is at `start`, and the offset behind its closing one."""
    quote, at, parts = text[start], start + 1, []
    while True:
        found = _CHUNK.match(text, at)
        assert found is not None  # it matches nothing, too
        parts.append(found[0])
        at = found.end()
        char = text[at : at + 1]
        if char == quote:
            return "".join(parts), at + 1
        if char in "\r\n":  # the end of the text, too
            raise UnreadableError(
                "unclosed", start, "this text has no closing quote", f"close it with {quote}"
            )
        if char == "\\":
            part, at = _escape(text, at)
            parts.append(part)
        elif char in "'\"":
            parts.append(char)
            at += 1
        else:
            raise UnreadableError(
                "syntax",
                at,
                f"a control character ({char!r}) stands in this text",
                f"write it as \\u{ord(char):04x}",
            )


def _escape(text: str, at: int) -> tuple[str, int]:
    char = text[at + 1 : at + 2]
    if char in _ESCAPES and char:
        return _ESCAPES[char], at + 2
    if char != "u" or not _UNICODE.match(text, at + 2):
        raise UnreadableError(
            "syntax",
            at,
            f"JSON has no escape {text[at : at + 2]}",
            "write \\\\ for a backslash",
        )
    number = int(text[at + 2 : at + 6], 16)
    at += 6
    if 0xD800 <= number < 0xDC00 and text[at : at + 2] == "\\u" and _UNICODE.match(text, at + 2):
        low = int(text[at + 2 : at + 6], 16)
        if 0xDC00 <= low < 0xE000:
            number, at = 0x10000 + (((number - 0xD800) << 10) | (low - 0xDC00)), at + 6
    return chr(number), at


def many_lines(text: str, start: int) -> tuple[str, int]:
    """The text between ''' and ''', the first of which is at `start`; its indent is cut off."""
    end = text.find("'''", start + 3)
    if end < 0:
        raise UnreadableError(
            "unclosed", start, "this text over many lines is never closed", "close it with '''"
        )
    indent = start - _line_start(text, start)
    if text.find("\n", 0, start) < 0:  # hjson counts on from the end of the text
        indent += len(text) - _line_start(text, len(text))
    first, *others = text[start + 3 : end].replace("\r", "").split("\n")
    first = first.lstrip(" \t")
    lines = [_without(line, indent) for line in others]
    if first or not lines:
        lines.insert(0, first)
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return "\n".join(lines), end + 3


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _without(line: str, indent: int) -> str:
    kept = line[:indent].lstrip(" \t")
    return kept + line[indent:]


def unbalanced(line: str) -> bool:
    """Whether a bracket closes that was not opened here."""
    return any(line.count(close) > line.count(open_) for open_, close in ("{}", "[]"))


def in_quotes(value: str) -> str:
    """What to write for a text without quotes: one of JSON's words, where it is close to one."""
    if value in _NOTHING:
        return "write null, or leave the key out"
    near = difflib.get_close_matches(value.lower(), ("true", "false", "null"), 1, 0.7)
    return f"write {near[0]}" if near else f'write "{value}"'
