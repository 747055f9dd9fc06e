"""Agents over SSH by paramiko: nothing but Python is needed here, and OpenSSH's files count."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from zlaunch.backends.base import ENDED
from zlaunch.backends.openssh import SshOptions
from zlaunch.backends.remote import Entrance, explain_failure
from zlaunch.backends.ssh_connect import Way
from zlaunch.backends.ssh_login import KeyFiles
from zlaunch.backends.ssh_types import Channel
from zlaunch.errors import BackendError
from zlaunch.spec.hostfile import Host
from zlaunch.system.stdio import enlarge_pipe

_AT_ONCE = 64  # hosts that keys are exchanged with at the same time
_CHUNK = 64 << 10  # bytes moved at once
_MOMENT = 0.2  # seconds between the end of what a host says and that of its command
_BRIEFLY = 1.0  # seconds for threads whose connection was cut


class SshLink:
    """Pipes to the launcher, and two threads between them and a channel.

    The one that connects then moves what the agent says; another moves the orders.
    """

    remote = True

    def __init__(
        self, host: Host, command: str, way: Way, *, greeting: bytes, connect_timeout: float
    ) -> None:
        self.greeting = greeting
        self._host = host
        self._command = command
        self._way = way
        self._bound = connect_timeout
        self._failure: BackendError | None = None
        self._channel: Channel | None = None
        self.incoming, self._events = os.pipe()
        self.errors, self._words = os.pipe()
        self._orders, self.outgoing = os.pipe()
        enlarge_pipe(self.incoming)
        os.set_blocking(self.errors, False)
        self._open = {self.incoming, self.errors, self.outgoing}
        self._mover = threading.Thread(target=self._run, name=f"ssh {host.name}", daemon=True)
        self._sender = threading.Thread(target=self._send, name=f"ssh to {host.name}", daemon=True)
        self._mover.start()

    def explain(self, how: str, words: str, began: bool) -> str:
        """Name the host and the cause."""
        if self._failure is not None:
            others = words.removesuffix(str(self._failure)).strip()
            return f"{self._host.name}: {self._failure}" + (f"\n{others}" if others else "")
        if self._channel is None:
            return f"{self._host.name}: it {self._way.silence}"
        if how == ENDED:
            self._mover.join(_MOMENT)
        return explain_failure(self._host.name, f"{how}{self._ending()}", words, began)

    def _ending(self) -> str:
        channel = self._channel
        code = channel.recv_exit_status() if channel and channel.exit_status_ready() else -1
        return "" if code < 0 else f" (exit code {code})"

    def heard(self, words: str) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing is told but where the agent is lost."""
        return ()

    def hang_up(self) -> None:
        """Close our side; the agent sees the end of its orders."""
        self._close(self.outgoing)

    def close(self, timeout: float) -> str:
        """Wait for the channel's end, then cut the connection."""
        self.hang_up()
        self._close(self.incoming)  # what still comes is passed over
        self._close(self.errors)
        if self._channel is not None:
            self._mover.join(timeout)
        self._way.abort()
        return self._ending().strip(" ()") or "connection closed"

    def join(self, timeout: float) -> None:
        """Wait for the threads; one may be in a lookup of a name, which nothing ends."""
        self._mover.join(timeout)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)

    # The threads

    def _run(self) -> None:
        try:
            self._connect()
        except BackendError as error:
            self._fail(error)
        except Exception as error:  # of paramiko, which raises what it likes
            self._fail(BackendError(f"SSH failed ({self._way.stage}: {error!r})"))
        finally:
            os.close(self._events)
            os.close(self._words)
        if self._channel is not None:
            self._channel.recv_exit_status()  # it comes behind the end of output
        self._way.close()
        if self._channel is not None:
            self._channel.close()  # the descriptor behind its fileno, once nobody writes to it
            self._sender.join()
        else:
            os.close(self._orders)

    def _connect(self) -> None:
        self._channel = self._way.lead(self._host, self._command, self._bound, self._words)
        self._sender.start()
        self._receive(self._channel)

    def _fail(self, error: BackendError) -> None:
        self._failure = error
        _write(self._words, f"{error}\n".encode())

    def _receive(self, channel: Channel) -> None:
        """Move what comes until the channel ends; a launcher that does not read holds it up."""
        poll = select.poll()
        poll.register(channel.fileno(), select.POLLIN)
        ended = False
        while not ended:
            poll.poll()
            ended = bool(channel.eof_received or channel.closed)
            while channel.recv_stderr_ready():
                _write(self._words, channel.recv_stderr(_CHUNK))
            while channel.recv_ready():
                _write(self._events, channel.recv(_CHUNK))

    def _send(self) -> None:
        assert self._channel is not None
        try:
            with suppress(OSError, EOFError):
                while data := os.read(self._orders, _CHUNK):
                    self._channel.sendall(data)
                self._channel.shutdown_write()
        finally:
            os.close(self._orders)


class SshBackend:
    """Reaches all nodes at the same time, each by a thread of its own."""

    def __init__(
        self,
        hosts: Mapping[int, Host],
        entrances: Mapping[int, Entrance],
        options: SshOptions,
        home: Path,
    ) -> None:
        """`hosts` and `entrances` are by node rank."""
        self._hosts = hosts
        self._entrances = entrances
        self._options = options
        self._home = home
        self._files = KeyFiles()
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._links: list[SshLink] = []

    def open(self, node_rank: int, host: str) -> SshLink:
        """Begin to connect; raises BackendError only where there is no room for it here."""
        entrance = self._entrances[node_rank]
        accept_new = self._options.host_keys == "accept-new"
        try:
            link = SshLink(
                self._hosts[node_rank],
                entrance.command,
                Way(self._home, self._files, self._slots, accept_new=accept_new),
                greeting=entrance.greeting(node_rank),
                connect_timeout=self._options.connect_timeout,
            )
        except (OSError, RuntimeError) as error:  # of descriptors or threads there are no more
            problem = f"{host}: no connection can be begun: {error}"
            raise BackendError(problem, hint="see ulimit -n and ulimit -u") from error
        self._links.append(link)
        return link

    def close(self) -> None:
        """Wait a moment for the threads of what was closed."""
        deadline = time.monotonic() + _BRIEFLY
        for link in self._links:
            link.join(max(0.0, deadline - time.monotonic()))
        self._links.clear()


def _write(fd: int, data: bytes) -> None:
    """Write all of it, or nothing more once the launcher has closed its end."""
    with suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]
