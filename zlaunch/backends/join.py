"""Agents that came by themselves: each is at the other end of a connection that it opened."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

from zlaunch.backends.lobby import Caller
from zlaunch.errors import BackendError
from zlaunch.run.handshake import Answer
from zlaunch.system.connection import end_watch

_CHUNK = 256 << 10  # bytes thrown away at once


class SocketLink:
    """A link that is one socket; the agent at its end has been waiting for the greeting."""

    remote = True

    def __init__(self, caller: Caller) -> None:
        self._sock: socket.socket = caller.sock
        self._hello = caller.hello
        with suppress(OSError):  # gone meanwhile; reading from it will tell
            end_watch(self._sock)
        self.greeting = caller.door.answer(Answer("begin"))
        self.incoming = self.outgoing = self._sock.fileno()
        # Nothing is ever said beside the socket: an end of file from the start.
        self.errors, end = os.pipe()
        os.close(end)

    def explain(self, how: str, words: str, began: bool) -> str:  # noqa: ARG002
        """Name the node and what showed."""
        hello = self._hello
        said = f":\n{words}" if words else ""
        return f"the agent of node {hello.node_rank} on {hello.host} {how}{said}"

    def heard(self, words: str) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing is said beside the socket."""
        return ()

    def hang_up(self) -> None:
        """Say that no more orders come; what the agent still says is taken, or it would be lost."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self, timeout: float) -> str:
        """Wait for the agent to close its end."""
        self.hang_up()
        gone = self._ends_by(time.monotonic() + timeout)
        self._sock.close()
        os.close(self.errors)
        return "has left" if gone else "did not leave"

    def _ends_by(self, deadline: float) -> bool:
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._sock], [], [], left)[0]:
                try:
                    if not self._sock.recv(_CHUNK):
                        return True
                except OSError:
                    return True
        return False


class JoinBackend:
    """Hands out the connections of the nodes that have joined."""

    def __init__(self, joined: Mapping[int, Caller]) -> None:
        self._joined = dict(joined)

    def open(self, node_rank: int, host: str) -> SocketLink:  # noqa: ARG002 - it is known already
        """Return the link to the node; it came by itself, so there is no other one."""
        if node_rank not in self._joined:
            raise BackendError(f"node {node_rank} has left")
        return SocketLink(self._joined.pop(node_rank))

    def close(self) -> None:
        """Nothing is left once each link is closed."""
