"""A port for the rendezvous: picked free, and kept.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import socket


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

    def release(self) -> None:
        """Give the port back."""
        self._socket.close()


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
