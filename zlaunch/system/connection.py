"""TCP connections between nodes: kept alive, and their addresses as they are written.

Standard library and Python 3.9, as the agent's side uses it.
"""

from __future__ import annotations

import socket

_PROBES = 3  # in one heartbeat


def keep_alive(sock: socket.socket, heartbeat: float) -> None:
    """Have the kernel notice within about `heartbeat` seconds that the other host is gone.

    And send small pieces at once.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = max(1, round(heartbeat / _PROBES))
    for name, value in (
        ("TCP_KEEPIDLE", seconds),
        ("TCP_KEEPINTVL", seconds),
        ("TCP_KEEPCNT", _PROBES - 1),
    ):
        if hasattr(socket, name):  # not every system lets this be said
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def plain_address(address: str) -> str:
    """An IPv4 address as such, where a socket for both kinds writes ::ffff: before it."""
    prefix = "::ffff:"
    mapped = address.lower().startswith(prefix) and "." in address
    return address[len(prefix) :] if mapped else address
