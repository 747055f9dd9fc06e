"""OpenSSH's configuration files: their lines, and those that apply to a host.

The rules are those of ssh_config(5) and of OpenSSH's readconf.c: of every keyword the first
line that applies stays, and what an `Include` brings in holds in the block around it only.
Nothing is ever run: where a command (`Match exec`) decides, that is an error.
"""

from __future__ import annotations

import glob
import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zlaunch.errors import BackendError

OPENSSH = "the system's ssh can do it: use --ssh openssh"

_MAX_DEPTH = 16  # of files that include files, as in OpenSSH
_KEYWORD = re.compile(r'"?([^\s="]+)"?(?:[ \t]*=[ \t]*|[ \t]+)(.+)', re.DOTALL)
_ESCAPE = re.compile(r"""\\(["'\\ ])""")
_TOKEN = re.compile(r"%(.?)|\$\{([^}]*)\}", re.DOTALL)
_TIME = re.compile(r"(?:[0-9]{1,9}[smhdw]?)+")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BEYOND_US = {"exec", "localnetwork", "tagged", "version", "sessiontype", "command"}


@dataclass(frozen=True)
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


class Reading:
    """The lines that apply to one host, collected by reading the files for it."""

    def __init__(self, alias: str, user: str | None, me: str, home: Path, system: Path) -> None:
        self.alias = alias
        self.first: dict[str, Line] = {}  # proxycommand and proxyjump are both "proxy"
        self.identities: dict[str, Line] = {}
        self._given_user = user
        self._me = me
        self._home = home
        self._system = system
        self._fixed_hostname: str | None = None
        self._final = False  # whether this is the second reading
        self._final_wanted = False

    @property
    def user(self) -> str:
        """The name to log in by, as far as the files have been read."""
        configured = self.first["user"].word() if "user" in self.first else self._me
        return self._given_user or configured

    @property
    def hostname(self) -> str:
        """The name to connect to, as far as the files have been read."""
        line = self.first.get("hostname")
        if self._fixed_hostname is not None:
            return self._fixed_hostname
        name = line.expanded(line.word(), {"h": self.alias}) if line else self.alias
        return name if _is_address(name) else name.lower()  # the zone of one may have capitals

    def read(self) -> None:
        """Read all files, and once more where `Match final` or canonical names ask for it."""
        self._read_both()
        if self._canonicalizes() or self._final_wanted:
            self._fixed_hostname, self._final = self.hostname, True
            self._read_both()

    def _read_both(self) -> None:
        of_user = self._home / ".ssh"
        self._read(of_user / "config", of_user, active=True, depth=0)
        self._read(self._system, self._system.parent, active=True, depth=0)

    def _read(self, path: Path, base: Path, *, active: bool, depth: int) -> None:
        reachable = active
        for line in _lines(path):
            if line.keyword == "host":
                name = self._fixed_hostname or self.alias
                active = _among(name, line.words()) and reachable
            elif line.keyword == "match":
                active = self._matches(line, reachable)
            elif line.keyword == "include":
                if depth == _MAX_DEPTH:
                    raise line.error(f"files include files more than {_MAX_DEPTH} deep")
                for included in self._included(line, base):
                    self._read(included, base, active=active, depth=depth + 1)
            elif active and line.keyword == "identityfile":
                self.identities.setdefault(line.word(), line)
            elif active and line.keyword in {"proxycommand", "proxyjump"}:
                self._take_proxy(line)
            elif active:
                self.first.setdefault(line.keyword, line)

    def _take_proxy(self, line: Line) -> None:
        """Whichever of the two is first stays, save that `ProxyJump none` lets a command come."""
        first = self.first.setdefault("proxy", line)
        no_jump = first.keyword == "proxyjump" and first.word().lower() == "none"
        if no_jump and line.keyword == "proxycommand":
            self.first["proxy"] = line

    def _included(self, line: Line, base: Path) -> Iterator[Path]:
        for word in line.words():
            pattern = str(base / line.path(word, self._home))
            # Unlike pathlib's, this glob leaves hidden files alone, as OpenSSH does.
            yield from (Path(name) for name in sorted(glob.glob(pattern)))  # noqa: PTH207

    def _matches(self, line: Line, reachable: bool) -> bool:
        result, beyond_us, count = True, "", 0
        words = line.words()
        while words:
            word = words.pop(0)
            name, equals, value = word.removeprefix("!").partition("=")
            name, count = name.lower(), count + 1
            if name == "all" and (words or count > 2):
                raise line.error("'all' stands alone")
            if name not in {"all", "canonical", "final"} and not equals:
                if not words:
                    raise line.error(f"a value is missing behind {word}")
                value = words.pop(0)
            if name in _BEYOND_US:
                beyond_us = name
            elif self._meets(line, name, value) is word.startswith("!"):
                result = False
        if result and reachable and beyond_us:
            raise line.error(f"'Match {beyond_us}' is not for zlaunch to decide", OPENSSH)
        return result and reachable

    def _meets(self, line: Line, name: str, value: str) -> bool:
        if name in {"canonical", "final"}:
            self._final_wanted |= name == "final"
            return self._final
        if name in {"host", "originalhost"}:
            host = self.hostname if name == "host" else self.alias.lower()
            return _among(host, value.lower().split(","))
        if name in {"user", "localuser"}:
            return _among(self.user if name == "user" else self._me, value.split(","))
        if name != "all":
            raise line.error(f"there is no criterion {name!r}")
        return True

    def _canonicalizes(self) -> bool:
        """Whether names are canonicalized; an error where that would take a lookup."""
        line, domains = self.first.get("canonicalizehostname"), self.first.get("canonicaldomains")
        if line is None or line.word().lower() in {"no", "false", "none"}:
            return False
        dots, proxy = self.first.get("canonicalizemaxdots"), self.first.get("proxy")
        direct = proxy is None or proxy.rest.lower() == "none" or line.word().lower() == "always"
        short = self.hostname.count(".") <= (dots.number(0, 99) if dots else 1)
        if domains and direct and short and not _is_address(self.hostname):
            raise line.error("zlaunch does not look names up in CanonicalDomains", OPENSSH)
        return True


def _lines(path: Path) -> Iterator[Line]:
    text = _text(path).decode(errors="surrogateescape").removeprefix("\ufeff")
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


def _among(text: str, patterns: Iterable[str]) -> bool:
    """Whether `text` matches one of `patterns`, and none of those with a ! in front."""
    hits = [pattern for pattern in patterns if _like(text, pattern.removeprefix("!"))]
    return bool(hits) and not any(hit.startswith("!") for hit in hits)


def _like(text: str, pattern: str) -> bool:
    """Match as OpenSSH does: * and ? alone have a meaning."""
    wild = {"*": ".*", "?": "."}
    pieces = (wild.get(char) or re.escape(char) for char in re.sub(r"\*+", "*", pattern))
    return re.fullmatch("".join(pieces), text, re.DOTALL) is not None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
