"""TCP connections between nodes: watched by the kernel, and their addresses as they are written.

Standard library and Python 3.9, as the agent's side uses it.
"""

from __future__ import annotations

import socket

_PROBES = 3  # in one heartbeat
# Not every system lets each of these be said.
_IDLE, _BETWEEN, _COUNT, _UNANSWERED = (
    getattr(socket, name, None)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
)


def keep_watch(sock: socket.socket, heartbeat: float) -> None:
    """Have the kernel notice within about `heartbeat` seconds that the other host is gone.

    For a connection on which nothing is said for long. And send small pieces at once.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = max(1, round(heartbeat / _PROBES))
    _set(sock, _IDLE, seconds)
    _set(sock, _BETWEEN, seconds)
    _set(sock, _COUNT, _PROBES - 1)
    _set(sock, _UNANSWERED, round(heartbeat * 1000))


def end_watch(sock: socket.socket) -> None:
    """Leave it to pings: to the kernel, a reader that pauses looks like a host that is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
    _set(sock, _UNANSWERED, 0)


def _set(sock: socket.socket, option: int | None, value: int) -> None:
    if option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def plain_address(address: str) -> str:
    """An IPv4 address as such, where a socket for both kinds writes ::ffff: before it."""
    prefix = "::ffff:"
    mapped = address.lower().startswith(prefix) and "." in address
    return address[len(prefix) :] if mapped else address
