"""Logs in by key: those of the configuration's files and those of ssh-agent; never a prompt."""

from __future__ import annotations

import base64
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zlaunch.backends.ssh_types import Key, Transport
from zlaunch.errors import BackendError
from zlaunch.system.ssh_config import SshTarget
from zlaunch.system.ssh_lines import OPENSSH


class KeyFiles:
    """Private keys by file, each read once; safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, Key | str] = {}

    def read(self, path: str) -> Key | str:
        """Return the key, or why it cannot be used."""
        with self._lock:
            if path not in self._keys:
                self._keys[path] = _read(path)
            return self._keys[path]


def log_in(
    transport: Transport, target: SshTarget, files: KeyFiles, left: Callable[[], float]
) -> None:
    """Offer one key after the other, within `left()` seconds; raises BackendError."""
    import paramiko

    with _agent(target, left()) as (agent_keys, agent_trouble):
        keys, unusable = _candidates(target, files, agent_keys)
        unusable += [agent_trouble] if agent_trouble else []
        allowed: list[str] = []
        for key in keys.values():
            transport.auth_timeout = max(0.1, left())
            try:
                more = transport.auth_publickey(target.user, key)
            except paramiko.BadAuthenticationType as error:
                allowed = error.allowed_types
                break
            except paramiko.AuthenticationException:
                if left() <= 0:
                    raise
                if not transport.is_active():  # it has seen enough of our keys
                    break
                continue
            if more:
                raise BackendError(f"it wants more than a key ({', '.join(more)})", hint=OPENSSH)
            return
        if keys or not _let_in_without(transport, target):
            raise _refused(target, list(keys), unusable, allowed)


def _refused(
    target: SshTarget, offered: list[str], unusable: list[str], allowed: list[str]
) -> BackendError:
    why = f"; {', '.join(unusable)}" if unusable else ""
    who = f"{target.user}@{target.hostname}"
    hint = OPENSSH if any(name.startswith("gssapi") for name in allowed) else None
    if allowed:
        return BackendError(f"it takes no key ({who}: only {', '.join(allowed)})", hint=hint)
    if offered:
        return BackendError(f"it refuses our key ({who} with {', '.join(offered)}{why})")
    names = ", ".join(target.identities) or "no IdentityFile"
    return BackendError(f"there is no key to log in with as {who} ({names}{why})")


def _let_in_without(transport: Transport, target: SshTarget) -> bool:
    """Whether the host asks for nothing at all."""
    import paramiko

    try:
        return not transport.auth_none(target.user)
    except paramiko.AuthenticationException:
        return False


def _candidates(
    target: SshTarget, files: KeyFiles, agent_keys: list[Key]
) -> tuple[dict[str, Key], list[str]]:
    """Return the keys to offer, by the name to report, and why others are not among them.

    OpenSSH's order: what the agent holds of the files' keys, what else it holds, other files.
    """
    loaded: dict[str, Key] = {}
    encrypted: dict[str, str] = {}
    public: set[bytes] = set()
    for path in target.identities:
        public.add(_public_half(path))
        if Path(path).is_file():
            key = files.read(path)
            if isinstance(key, str):
                encrypted[path] = key
            else:
                loaded[path] = key
                public.add(key.asbytes())
    held = {key.asbytes() for key in agent_keys}
    ours = [key for key in agent_keys if key.asbytes() in public]
    others = [key for key in agent_keys if key.asbytes() not in public]
    from_agent = ours if target.identities_only else ours + others
    found: dict[str, Key] = {
        f"ssh-agent's {getattr(key, 'comment', '') or key.get_name()} ({number})": key
        for number, key in enumerate(from_agent, start=1)
    }
    found |= {path: key for path, key in loaded.items() if key.asbytes() not in held}
    helped = {path for path in encrypted if _public_half(path) in held}
    return found, [why for path, why in encrypted.items() if path not in helped]


def _public_half(path: str) -> bytes:
    file = Path(path if path.endswith(".pub") else f"{path}.pub")
    try:
        return base64.b64decode(file.read_text("utf-8").split()[1])
    except (OSError, ValueError, IndexError):
        return b""


def _read(path: str) -> Key | str:
    import paramiko

    try:
        return paramiko.PKey.from_path(path)
    except TypeError:
        return f"{path} is encrypted; ssh-add opens it"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    except Exception as error:  # of three libraries, each with its own
        what = str(error).partition("\n")[0][:120] or type(error).__name__
        return f"{path} is no key for paramiko: {what}"


@contextmanager
def _agent(target: SshTarget, timeout: float) -> Iterator[tuple[list[Key], str]]:
    """Give the keys of ssh-agent while it is connected, and why there are none."""
    from paramiko import SSHException
    from paramiko.agent import AgentSSH

    name = target.identity_agent or os.environ.get("SSH_AUTH_SOCK") or "none"
    if name == "none":
        yield [], ""
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(0.1, timeout))
        agent = AgentSSH()
        keys: list[Key] = []
        trouble = ""
        try:
            connection.connect(name)
            # What paramiko offers for this looks at SSH_AUTH_SOCK only.
            agent._connect(connection)  # type: ignore[attr-defined]
            keys = list(agent.get_keys())
        except (OSError, SSHException) as error:
            trouble = f"ssh-agent at {name}: {error}"
        yield keys, trouble
