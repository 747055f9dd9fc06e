"""How a host is reached over SSH, as the user's own OpenSSH configuration says.

~/.ssh/config and /etc/ssh/ssh_config are read as `ssh` reads them. paramiko's reader is not
used: it knows no Include, takes comments for values, gives `[` in a pattern and ~ inside a
value a meaning that they do not have, and would run the commands of `Match exec`.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from zlaunch.errors import BackendError
from zlaunch.frozen import frozen
from zlaunch.system.ssh_files import Reading
from zlaunch.system.ssh_lines import Line

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")

_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
_JUMP = re.compile(
    r"(?:ssh://)?(?:([^-].*)@)?(\[[^\[\]]+\]|[^\[\]:@/\s-][^\[\]:@/\s]*)(?::([0-9]{1,5}))?/?"
)
_SAFE_IN_SHELL = re.compile(r"(?!-)[\w.:@%+=,/-]*")


@frozen
class SshTarget:
    """What a connection to `host` is made with. Files are named whether they exist or not."""

    host: str  # as the user calls it
    hostname: str
    port: int
    user: str
    identities: tuple[str, ...]  # the usual names, where the configuration names none
    known_hosts: tuple[str, ...]  # the user's files; a new key goes into the first
    global_known_hosts: tuple[str, ...]
    proxy_command: str | None = None  # for /bin/sh, ready to run
    proxy_jump: tuple[str, ...] = ()  # the nearest first, each for parse_jump
    host_key_alias: str | None = None
    identities_only: bool = False
    hash_known_hosts: bool = False  # how a new key is noted
    identity_agent: str | None = None  # a socket, or "none"; None for SSH_AUTH_SOCK
    connect_timeout: int | None = None  # seconds


def resolve(
    alias: str,
    *,
    user: str | None = None,
    port: int | None = None,
    home: Path,
    system_config: Path = SYSTEM_CONFIG,
) -> SshTarget:
    """Say how `alias` is reached; `user` and `port` are the caller's and win over the files.

    Raises BackendError for a file that cannot be read, with its line, and for what only the
    system's ssh can decide.
    """
    me = _local_user()
    reading = Reading(alias, user, me, home, system_config)
    reading.read()
    return _target(reading, reading.first, port, me, home)


def is_direct(target: SshTarget) -> bool:
    """Whether it is reached over nothing else, at the usual port, as who asks."""
    over = target.proxy_command is not None or target.proxy_jump
    return not over and target.port == 22 and target.user == _local_user()


def parse_jump(text: str) -> tuple[str | None, str, int | None]:
    """Read one host of a ProxyJump into user, host and port."""
    match = _JUMP.fullmatch(text)
    port = int(match[3]) if match and match[3] else None
    if match is None or (port is not None and not 1 <= port <= 65535):
        raise BackendError(f"ProxyJump cannot be read at {text!r}", hint="write [USER@]HOST[:PORT]")
    return match[1], match[2].strip("[]"), port


def _local_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container, as a user that it does not know
        return os.environ.get("LOGNAME") or os.environ.get("USER") or str(os.getuid())


def _target(
    reading: Reading, first: Mapping[str, Line], port: int | None, me: str, home: Path
) -> SshTarget:
    hostname, user = reading.hostname, reading.user
    port = port or (first["port"].number(1, 65535) if "port" in first else 22)
    alias_of_key = first["hostkeyalias"].word().lower() if "hostkeyalias" in first else None
    tokens = _tokens(reading.alias, hostname, str(port), user, me, str(home), alias_of_key)
    files = _Files(home, tokens)
    command, jump = _proxy(first.get("proxy"), tokens)
    return SshTarget(
        host=reading.alias,
        hostname=hostname,
        port=port,
        user=user,
        identities=files.identities(reading.identities),
        known_hosts=files.known_hosts(first, "userknownhostsfile", f"{home}/.ssh/known_hosts"),
        global_known_hosts=files.known_hosts(
            first, "globalknownhostsfile", "/etc/ssh/ssh_known_hosts"
        ),
        proxy_command=command,
        proxy_jump=jump,
        host_key_alias=alias_of_key,
        identities_only="identitiesonly" in first and first["identitiesonly"].flag(),
        hash_known_hosts="hashknownhosts" in first and first["hashknownhosts"].flag(),
        identity_agent=files.agent(first.get("identityagent")),
        connect_timeout=first["connecttimeout"].seconds() if "connecttimeout" in first else None,
    )


def _tokens(
    alias: str, hostname: str, port: str, user: str, me: str, home: str, alias_of_key: str | None
) -> dict[str, str]:
    """Return what the letters behind a % stand for."""
    here = socket.gethostname()
    remote = {"h": hostname, "n": alias, "p": port, "r": user, "k": alias_of_key or alias}
    local = {"u": me, "i": str(os.getuid()), "d": home, "l": here, "L": here.partition(".")[0]}
    return remote | local


@frozen
class _Files:
    """Turns what a configuration names files by into their names."""

    home: Path
    tokens: Mapping[str, str]

    def name(self, line: Line, word: str) -> str:
        return line.expanded(line.path(word, self.home), self.tokens, env=True)

    def identities(self, lines: Mapping[str, Line]) -> tuple[str, ...]:
        if not lines:
            return tuple(f"{self.home}/.ssh/{name}" for name in _DEFAULT_KEYS)
        return tuple(self.name(line, word) for word, line in lines.items() if not _none(word))

    def known_hosts(self, first: Mapping[str, Line], keyword: str, default: str) -> tuple[str, ...]:
        line = first.get(keyword)
        if line is None:
            return (default, f"{default}2")
        words = line.words()
        return () if _none(words[0]) else tuple(self.name(line, word) for word in words)

    def agent(self, line: Line | None) -> str | None:
        word = line.word() if line else "SSH_AUTH_SOCK"
        if line is None or word == "SSH_AUTH_SOCK":
            return None
        if _none(word):
            return "none"
        if word.startswith("$") and not word.startswith("${"):
            return os.environ.get(word[1:]) or "none"
        return self.name(line, word)


def _none(word: str) -> bool:
    return word.lower() == "none"


def _proxy(line: Line | None, tokens: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the command and the hosts to jump over, of which at most one is given."""
    tokens = {key: tokens[key] for key in "hnpr"}
    if line is None or _none(line.rest):
        return None, ()
    if line.keyword == "proxycommand":
        for key, value in tokens.items():
            if f"%{key}" in line.rest and not _SAFE_IN_SHELL.fullmatch(value):
                problem = f"a shell would read {value!r} as more than a name"
                raise line.error(problem, f"write the name in place of %{key}")
        return line.expanded(line.rest, tokens), ()
    word = line.word()
    hops = () if _none(word) else tuple(line.expanded(hop, tokens) for hop in word.split(","))
    for hop in hops:
        try:
            parse_jump(hop)
        except BackendError as error:
            raise line.error(error.message, error.hint or "") from error
    return None, hops
