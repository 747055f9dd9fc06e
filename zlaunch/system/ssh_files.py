"""OpenSSH's configuration files: which of their lines apply to a host.

The rules are those of ssh_config(5) and of OpenSSH's readconf.c: of every keyword the first
line that applies stays, and what an `Include` brings in holds in the block around it only.
Nothing is ever run: where a command (`Match exec`) decides, that is an error.
"""

from __future__ import annotations

import glob
import ipaddress
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from zlaunch.system.ssh_lines import OPENSSH, Line, lines

_MAX_DEPTH = 16  # of files that include files, as in OpenSSH
_BEYOND_US = {"exec", "localnetwork", "tagged", "version", "sessiontype", "command"}


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
        for line in lines(path):
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


def _among(text: str, patterns: Iterable[str]) -> bool:
    """Whether `text` matches one of `patterns`, and none of those with a ! in front."""
    hits = [pattern for pattern in patterns if _like(text, pattern.removeprefix("!"))]
    return bool(hits) and not any(hit.startswith("!") for hit in hits)


def _like(text: str, pattern: str) -> bool:
    """Match as OpenSSH does: * and ? alone have a meaning."""
    if "*" not in pattern and "?" not in pattern:
        return text == pattern
    wild = {"*": ".*", "?": "."}
    pieces = (wild.get(char) or re.escape(char) for char in re.sub(r"\*+", "*", pattern))
    return re.fullmatch("".join(pieces), text, re.DOTALL) is not None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
