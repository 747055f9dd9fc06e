"""The host keys that the user's files know, read as OpenSSH reads them.

paramiko's reader is not used: it knows neither patterns nor @revoked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from zlaunch.errors import BackendError
from zlaunch.frozen import frozen
from zlaunch.system.ssh_config import SshTarget

_MARKERS = {"@revoked", "@cert-authority"}
_writing = threading.Lock()


@frozen
class _Known:
    """One line that is about the host; `place` is its file and line."""

    place: str
    marker: str
    kind: str
    key: bytes


def by_preference(target: SshTarget, kinds: Sequence[str]) -> list[str]:
    """Order the kinds of keys to ask a host for: first those that are known of it."""
    known = {line.kind for name in _names(target) for line in _lines(target, name)}
    return sorted(kinds, key=lambda kind: _family(kind) not in known)


def check_host_key(target: SshTarget, kind: str, key: bytes, *, accept_new: bool) -> None:
    """Compare the key that a host showed with those that are known of it.

    With `accept_new` one of a host without any becomes known. Raises BackendError.
    """
    name, *others = _names(target)
    known = list(_lines(target, name))
    same = [line for line in known if line.key == key]
    for line in same:
        if line.marker == "@revoked":
            raise BackendError(f"its host key is revoked ({line.place})")
    plain = [line for line in known if not line.marker]
    if any(line in plain for line in same):
        return
    shown = f"{name} shows {kind} {_fingerprint(key)}"
    if plain:
        raise BackendError(
            f"its host key has changed ({shown}; another one is known, see {plain[0].place})",
            hint="somebody may be in between; once you know better, remove that line",
        )
    if any(
        line.key == key and not line.marker for other in others for line in _lines(target, other)
    ):
        return
    if any(line.marker == "@cert-authority" for line in known):
        raise BackendError(
            f"its host key is not known ({shown}), and paramiko reads no certificate",
            hint="--ssh openssh checks the certificates of a known authority",
        )
    if not accept_new:
        raise BackendError(
            f"its host key is not known ({shown})",
            hint="connect once with ssh and check it, or use --ssh-host-keys accept-new",
        )
    noted = _hashed(name) if target.hash_known_hosts else name
    _remember(target, f"{noted} {kind} {base64.b64encode(key).decode('ascii')}\n")


def _names(target: SshTarget) -> tuple[str, ...]:
    """What the files call the host; under the later names a key counts only where it is equal."""
    if target.host_key_alias is not None:
        return (target.host_key_alias,)
    name = target.hostname.lower()
    return (name,) if target.port == 22 else (f"[{name}]:{target.port}", name)


def _family(kind: str) -> str:
    """rsa-sha2-512 is a way to sign with a key of the kind ssh-rsa."""
    return "ssh-rsa" if kind.startswith("rsa-sha2-") else kind


def _lines(target: SshTarget, name: str) -> Iterator[_Known]:
    for file in (*target.known_hosts, *target.global_known_hosts):
        try:
            text = Path(file).read_text("utf-8", errors="replace")
        except OSError:
            continue
        for number, content in enumerate(text.split("\n"), start=1):
            words = content.split()
            marker = words.pop(0) if words and words[0] in _MARKERS else ""
            if len(words) >= 3 and words[0][0] != "#" and _about(name, words[0].split(",")):
                yield _Known(f"{file}:{number}", marker, words[1], _decoded(words[2]))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""  # no key is like it, so the host's has changed


def _about(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is about `name`, and none with a ! in front."""
    hits = [pattern for pattern in patterns if _like(name, pattern.removeprefix("!"))]
    return bool(hits) and not any(hit.startswith("!") for hit in hits)


def _like(name: str, pattern: str) -> bool:
    if pattern.startswith("|1|"):
        _, _, salt, digest = (*pattern.split("|"), "", "")[:4]
        made = hmac.new(_decoded(salt), name.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(made, _decoded(digest))
    if "*" not in pattern and "?" not in pattern:
        return name == pattern.lower()
    wild = {"*": ".*", "?": "."}
    pieces = (wild.get(char) or re.escape(char) for char in re.sub(r"\*+", "*", pattern.lower()))
    return re.fullmatch("".join(pieces), name) is not None


def _hashed(name: str) -> str:
    """The name as `HashKnownHosts yes` has it written, which `_like` reads."""
    salt = os.urandom(20)
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return "|1|" + "|".join(base64.b64encode(part).decode("ascii") for part in (salt, digest))


def _fingerprint(key: bytes) -> str:
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode("ascii")
    return f"SHA256:{digest.rstrip('=')}"


def _remember(target: SshTarget, line: str) -> None:
    """Append to the user's first file; where there is none, the key is accepted this once."""
    if not target.known_hosts:
        return
    path = Path(target.known_hosts[0])
    try:
        with _writing:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(fd, "r+b", buffering=0) as file:
                size = os.fstat(fd).st_size
                complete = not size or os.pread(fd, 1, size - 1) == b"\n"
                file.write(("" if complete else "\n").encode() + line.encode())
    except OSError as error:
        problem = f"its host key cannot be noted in {path}: {error.strerror}"
        raise BackendError(problem) from error
