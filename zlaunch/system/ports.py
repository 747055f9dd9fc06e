"""A port for the rendezvous: picked free, and kept.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import contextlib
import errno
import socket

_LISTENING = "0A"
_BACKLOG = 1024  # connections that the kernel makes without anybody accepting them


class ReservedPort:
    """A TCP port that is kept for rank 0 to listen on.

    The socket is bound and never listens. Whoever binds plainly, or asks for any free port,
    does not get it; torch's store does, since it sets SO_REUSEADDR, and Linux lets it bind
    beside a socket that also has the option and does not listen.
    """

    def __init__(self, port: int = 0, *, reuse: bool = False) -> None:
        """Take `port`, or any free one for 0; with `reuse` beside connections that fade out.

        Raises OSError where it cannot be had.
        """
        self._socket = _bind(port, reuse=reuse)
        self.port: int = self._socket.getsockname()[1]
        # Set after bind: before, another reservation could have been given the same port.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def listen(self) -> socket.socket:
        """Return another socket that listens on the port, as torch's store will.

        Raises OSError.
        """
        listener = _bind(self.port, reuse=True)
        try:
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        return listener

    def release(self) -> None:
        """Give the port back."""
        self._socket.close()


def take(port: int) -> ReservedPort:
    """Reserve a port that was named, beside connections of an earlier run that fade out.

    Raises OSError where it is in use.
    """
    try:
        return ReservedPort(port)
    except OSError as error:
        states = _states(port) if error.errno == errno.EADDRINUSE else set()
        if not states or _LISTENING in states:
            raise
        return ReservedPort(port, reuse=True)


def _states(port: int) -> set[str]:
    """The states of this machine's TCP sockets on the port, as proc(5) numbers them."""
    states: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            rows = [line.split() for line in file.readlines()[1:]]
            states.update(row[3] for row in rows if int(row[1].rpartition(":")[2], 16) == port)
    return states


def _bind(port: int, *, reuse: bool) -> socket.socket:
    """Bind for both IPv4 and IPv6 where the machine has both."""
    dual = socket.has_dualstack_ipv6()
    taken = socket.socket(socket.AF_INET6 if dual else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if dual:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        taken.bind(("::" if dual else "", port))
    except OSError:
        taken.close()
        raise
    return taken
