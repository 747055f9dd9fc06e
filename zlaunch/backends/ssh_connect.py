"""The way to one host by paramiko: over TCP, jump hosts or a proxy command to a channel."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from zlaunch.backends.ssh_host_keys import by_preference, check_host_key
from zlaunch.backends.ssh_login import KeyFiles, log_in
from zlaunch.backends.ssh_types import Channel, Transport
from zlaunch.errors import BackendError
from zlaunch.spec.hostfile import Host
from zlaunch.system.ssh_config import SshTarget, parse_jump, resolve

_WINDOW = 1 << 20  # bytes that a host may send before the launcher has read them


class _Wire:
    """A socket or channel as paramiko wants it, save that it waits as long as it takes.

    With the timeout that paramiko sets, each connection would look ten times a second whether
    it was closed; this one wakes up when it is.
    """

    def __init__(self, end: Any) -> None:
        self._end = end
        self._closed = False  # paramiko looks at it, as at a socket's
        self.recv = end.recv
        self.send = end.send

    def settimeout(self, timeout: float | None) -> None:
        """Wait without end all the same; whoever has a deadline closes the way."""

    def close(self) -> None:
        self._closed = True
        with suppress(OSError, EOFError):
            self._end.shutdown(socket.SHUT_RDWR)
        with suppress(OSError, EOFError):  # of a channel whose jump host is gone already
            self._end.close()


class Way:
    """Leads to one host. `abort` cuts it from any thread; the one that made it closes it."""

    def __init__(
        self, home: Path, files: KeyFiles, slots: threading.Semaphore, *, accept_new: bool
    ) -> None:
        self.stage = "waiting for its turn"
        self._home = home
        self._files = files
        self._slots = slots
        self._accept_new = accept_new
        self._bound = self._deadline = float("inf")
        self._lock = threading.Lock()
        self._aborted = False
        self._roots: list[socket.socket] = []
        self._proxies: list[subprocess.Popen[bytes]] = []
        self._transports: list[Transport] = []

    def lead(self, host: Host, command: str, bound: float, errors: int) -> Channel:
        """Connect within `bound` seconds and run the command.

        A proxy command prints to the descriptor `errors`. Raises BackendError.
        """
        began = time.monotonic()
        self._bound, self._deadline = bound, began + bound
        target = resolve(host.name, user=host.user, port=host.port, home=self._home)
        if target.connect_timeout is not None and target.connect_timeout < bound:
            self._bound, self._deadline = target.connect_timeout, began + target.connect_timeout
        transport = self._transport(target, (), errors)
        self.stage = f"opening a session on {target.hostname}"
        with self._explained():
            session = transport.open_session(timeout=self._left())
            session.exec_command(command)
            channel: Channel = session
        return channel

    @property
    def silence(self) -> str:
        """How long it took in vain, and on what."""
        return f"did not answer within {self._bound:g} s ({self.stage})"

    def abort(self) -> None:
        """Cut it: whoever waits for something on it sees its end."""
        with self._lock:
            self._aborted = True
            roots, proxies = list(self._roots), list(self._proxies)
        for root in roots:
            with suppress(OSError):
                root.shutdown(socket.SHUT_RDWR)
        for proxy in proxies:
            _kill(proxy)

    def close(self) -> None:
        """Take down all that was made for it, and wait for paramiko's threads."""
        self.abort()
        for transport in reversed(self._transports):
            transport.close()
        for transport in self._transports:
            if transport.is_alive():
                transport.join(1.0)
        for root in self._roots:
            root.close()
        for proxy in self._proxies:
            proxy.wait()

    # The way

    def _transport(self, target: SshTarget, before: tuple[str, ...], errors: int) -> Transport:
        name = f"{target.user}@{target.host}:{target.port}"
        if name in before:
            raise BackendError(f"ProxyJump goes round in a circle ({' '.join((*before, name))})")
        if target.proxy_command is not None:
            wire = self._by_command(target, target.proxy_command, errors)
        elif target.proxy_jump:
            wire = self._by_jumps(target, (*before, name), errors)
        else:
            wire = self._dial(target)
        return self._greet(target, wire)

    def _by_jumps(self, target: SshTarget, before: tuple[str, ...], errors: int) -> _Wire:
        last: Transport | None = None
        for hop in target.proxy_jump:
            user, name, port = parse_jump(hop)
            try:
                over = resolve(name, user=user, port=port, home=self._home)
                if last is None:
                    last = self._transport(over, before, errors)
                else:
                    last = self._greet(over, self._forward(last, over))
            except BackendError as error:
                problem = f"the way over {name} failed: {error.message}"
                raise BackendError(problem, where=error.where, hint=error.hint) from error
        assert last is not None
        return self._forward(last, target)

    def _forward(self, last: Transport, target: SshTarget) -> _Wire:
        import paramiko

        place = (target.hostname, target.port)
        self.stage = f"going on to {target.hostname} port {target.port}"
        with self._explained():
            try:
                channel = last.open_channel(
                    "direct-tcpip", place, ("127.0.0.1", 0), timeout=self._left()
                )
            except paramiko.ChannelException as error:
                problem = f"the jump host cannot connect to {place[0]} port {place[1]}"
                raise BackendError(f"{problem} ({error.text})") from error
        return _Wire(channel)

    def _by_command(self, target: SshTarget, command: str, errors: int) -> _Wire:
        self.stage = f"waiting for the SSH greeting of {target.hostname} by ProxyCommand"
        ours, theirs = socket.socketpair()
        self._own(ours)
        with theirs:
            try:
                proxy = subprocess.Popen(
                    ["/bin/sh", "-c", f"exec {command}"],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                raise BackendError(f"its ProxyCommand failed ({error.strerror})") from error
        with self._lock:
            self._proxies.append(proxy)
        if not self._greeted(ours):
            raise BackendError(f"its ProxyCommand failed ({command})")
        return _Wire(ours)

    def _dial(self, target: SshTarget) -> _Wire:
        self.stage = f"looking up {target.hostname}"
        try:
            found = socket.getaddrinfo(target.hostname, target.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise BackendError(f"its name does not resolve ({target.hostname}: {why})") from error
        self.stage = f"connecting to {target.hostname} port {target.port}"
        trouble: OSError | None = None
        for number, (family, _, _, _, address) in enumerate(found):
            try:
                end = socket.socket(family, socket.SOCK_STREAM)
                self._own(end)
                end.settimeout(max(0.1, self._left() / (len(found) - number)))
                end.connect(address)
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                trouble = error
                continue
            self.stage = f"waiting for the SSH greeting of {target.hostname} port {target.port}"
            if not self._greeted(end):
                raise BackendError(f"it closed the connection ({self.stage})")
            return _Wire(end)
        raise self._no_connection(trouble)

    def _no_connection(self, trouble: OSError | None) -> BackendError:
        if isinstance(trouble, ConnectionRefusedError):
            return BackendError(f"it refuses connections ({self.stage})")
        if isinstance(trouble, TimeoutError):
            return self._silent()
        why = getattr(trouble, "strerror", None) or str(trouble)
        return BackendError(f"there is no route to it ({self.stage}: {why})")

    def _own(self, root: socket.socket) -> None:
        """Take a socket that `abort` is to cut."""
        with self._lock:
            self._roots.append(root)
            if self._aborted:
                raise BackendError("it was given up")

    def _greeted(self, end: socket.socket) -> bool:
        """Wait for the first byte, before any of the few places for who computes is taken."""
        poll = select.poll()
        poll.register(end, select.POLLIN)
        if not poll.poll(max(0.0, self._left()) * 1000):
            raise self._silent()
        with suppress(OSError):
            return bool(end.recv(1, socket.MSG_PEEK))
        return False

    # On the way

    def _greet(self, target: SshTarget, wire: _Wire) -> Transport:
        """Agree on keys, see that the host is the one it claims to be, and log in."""
        import paramiko

        _quieten()
        if not self._slots.acquire(timeout=max(0.0, self._left())):
            raise self._silent()
        try:
            with self._explained():
                transport = paramiko.Transport(
                    cast("socket.socket", wire), default_window_size=_WINDOW
                )
                self._transports.append(transport)
                asked = transport.get_security_options()
                asked.key_types = by_preference(target, asked.key_types)
                self.stage = f"agreeing on keys with {target.hostname}"
                transport.start_client(timeout=max(0.1, self._left()))
                if self._left() <= 0:
                    raise self._silent()
                key = transport.get_remote_server_key()
                check_host_key(target, key.get_name(), key.asbytes(), accept_new=self._accept_new)
                self.stage = f"logging in as {target.user}@{target.hostname}"
                log_in(transport, target, self._files, self._left)
        finally:
            self._slots.release()
        return transport

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _silent(self) -> BackendError:
        return BackendError(f"it {self.silence}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what paramiko raises into a sentence."""
        import paramiko

        try:
            yield
        except (OSError, EOFError, paramiko.SSHException, ValueError) as error:
            if self._left() <= 0:
                raise self._silent() from error
            if isinstance(error, EOFError):
                problem = f"it closed the connection ({self.stage})"
                raise BackendError(problem) from error
            what = str(error) or type(error).__name__
            raise BackendError(f"SSH failed ({self.stage}: {what})") from error


def _kill(proxy: subprocess.Popen[bytes]) -> None:
    """Kill the command and what it started; unreaped, so its group is no stranger's."""
    if proxy.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(proxy.pid, signal.SIGKILL)


def _quieten() -> None:
    """Have paramiko keep to itself what the links report in their own words."""
    import logging

    logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
