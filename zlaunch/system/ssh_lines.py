"""OpenSSH's configuration files line by line: a keyword, and values as OpenSSH splits them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from zlaunch.errors import BackendError
from zlaunch.frozen import frozen

OPENSSH = "the system's ssh can do it: use --ssh openssh"

_FILES = 64  # whose lines are kept
_KEYWORD = re.compile(r'"?([^\s="]+)"?(?:[ \t]*=[ \t]*|[ \t]+)(.+)', re.DOTALL)
_ESCAPE = re.compile(r"""\\(["'\\ ])""")
_TOKEN = re.compile(r"%(.?)|\$\{([^}]*)\}", re.DOTALL)
_TIME = re.compile(r"(?:[0-9]{1,9}[smhdw]?)+")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@frozen
class Line:
    """One setting: its file and line, its keyword in lower case, and what follows."""

    place: str
    keyword: str
    rest: str

    def error(self, problem: str, hint: str = "mend the line") -> BackendError:
        """Build the error that points at this line."""
        shown = f"{self.keyword} {self.rest}"
        shown = f"{shown[:117]}..." if len(shown) > 120 else shown
        return BackendError(f"cannot use {shown!r}: {problem}", where=self.place, hint=hint)

    def words(self) -> list[str]:
        """Split as OpenSSH does: quotes, backslashes, and a comment at the end."""
        words: list[str] = []
        word: str | None = None
        quote, position = "", 0
        while position < len(self.rest):
            char, escape = self.rest[position], _ESCAPE.match(self.rest, position)
            position += 1
            if escape and not (quote and escape[1] == " "):
                word, position = (word or "") + escape[1], escape.end()
            elif char == quote or (not quote and char in "\"'"):
                word, quote = word or "", "" if quote else char
            elif quote or char not in " \t":
                if char == "#" and word is None:
                    break
                word = (word or "") + char
            elif word is not None:
                words.append(word)
                word = None
        words += [] if word is None else [word]
        if quote or not words or not all(words):
            raise self.error("a quote is not closed" if quote else "a value is missing")
        return words

    def word(self) -> str:
        """Return the only value of the line."""
        words = self.words()
        if len(words) != 1:
            raise self.error(f"expected one value, found {len(words)}")
        return words[0]

    def number(self, low: int, high: int) -> int:
        """Return the only value, a whole number."""
        word = self.word()
        if re.fullmatch(r"[0-9]{1,9}", word) and low <= int(word) <= high:
            return int(word)
        raise self.error(f"expected a number from {low} to {high}")

    def flag(self) -> bool:
        """Return the only value, yes or no."""
        word = self.word().lower()
        if word not in {"yes", "true", "no", "false"}:
            raise self.error("expected yes or no")
        return word in {"yes", "true"}

    def seconds(self) -> int | None:
        """Return the only value, a time; None where it sets no bound."""
        word = self.word().lower()
        if word == "none":
            return None
        if not _TIME.fullmatch(word):
            raise self.error("expected a time, such as 15 or 1m30s")
        parts = re.findall(r"([0-9]+)([a-z]?)", word)
        return sum(int(number) * _UNITS[unit] for number, unit in parts) or None

    def expanded(self, text: str, tokens: Mapping[str, str], *, env: bool = False) -> str:
        """Put in the values of %-tokens and, with `env`, of ${NAME}."""

        def value(match: re.Match[str]) -> str:
            if match[1] is None:
                if env and match[2] not in os.environ:
                    raise self.error(f"the variable {match[2]} is not set")
                return os.environ[match[2]] if env else match[0]
            if match[1] == "%":
                return "%"
            if match[1] not in tokens:
                raise self.error(f"zlaunch does not know %{match[1]} here", OPENSSH)
            return tokens[match[1]]

        return _TOKEN.sub(value, text)

    def path(self, text: str, home: Path) -> str:
        """Put the home directory in for a ~ at the beginning."""
        user, slash, rest = text.partition("/")
        if not user.startswith("~"):
            return text
        try:
            return f"{home if user == '~' else Path(user).expanduser()}{slash}{rest}"
        except RuntimeError as error:
            raise self.error(f"there is no home directory of {user[1:]}") from error


def lines(path: Path) -> Iterable[Line]:
    """Return the lines of the file that say something; none if there is no file.

    Raises BackendError.
    """
    return _parsed(str(path), _text(path))


@lru_cache(_FILES)  # every host of a run asks for the same files
def _parsed(path: str, content: bytes) -> tuple[Line, ...]:
    text = content.decode(errors="surrogateescape").removeprefix("\ufeff")
    return tuple(_lines(path, text))


def _lines(path: str, text: str) -> Iterator[Line]:
    for number, content in enumerate(text.split("\n"), start=1):
        stripped = content.strip(" \t\r\f")
        if stripped and not stripped.startswith("#"):
            place = f"{path}:{number}"
            match = _KEYWORD.fullmatch(stripped)
            if match is None or "\0" in stripped:
                problem = f"cannot read {stripped[:120]!r}: expected a keyword and its value"
                raise BackendError(problem, where=place, hint="mend the line")
            yield Line(place, match[1].lower(), match[2])


def _text(path: Path) -> bytes:
    """Return what is in the file; nothing if there is none."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in {0, os.getuid()} or status.st_mode & 0o002:
                raise BackendError(
                    f"{path} belongs to somebody else or can be written by everybody",
                    where=str(path),
                    hint=f"ssh does not read it like that either: chmod go-w {path}",
                )
            return file.read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return b""
    except OSError as error:
        problem = f"the SSH configuration cannot be read: {error.strerror}"
        raise BackendError(problem, where=str(path), hint="make it readable for you") from error
