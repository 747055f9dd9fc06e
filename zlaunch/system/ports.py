"""A port for the rendezvous: picked free and kept, or found busy before anything starts."""

from __future__ import annotations

import errno
import socket

from zlaunch.errors import InputError

# psutil's names of states in which a connection has been closed by its process.
_FADING = ("TIME_WAIT", "FIN_WAIT1", "FIN_WAIT2", "LAST_ACK", "CLOSING", "CLOSE")


class ReservedPort:
    """A TCP port that is kept for rank 0 to listen on.

    The socket is bound and never listens. Whoever binds plainly, or asks for any free port,
    does not get it; torch's store does, since it sets SO_REUSEADDR, and Linux lets it bind
    beside a socket that also has the option and does not listen.
    """

    def __init__(self, port: int = 0) -> None:
        """Take `port`, or any free one for 0.

        Raises InputError where it is busy.
        """
        self._socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        # Set after bind: before, another reservation could have been given the same port.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def release(self) -> None:
        """Give the port back."""
        self._socket.close()


def _bound(port: int) -> socket.socket:
    try:
        return _bind(port, reuse=False)
    except OSError as error:
        if error.errno == errno.EACCES:
            raise InputError(
                f"port {port} may not be used: {error.strerror}",
                hint="choose one above 1023, or leave --master-port out",
            ) from error
        if error.errno != errno.EADDRINUSE:
            raise
    # Connections of an earlier run may still be fading out (TIME_WAIT); they disturb nobody.
    holder, fading = _users(port)
    if holder is None and fading:
        return _bind(port, reuse=True)
    raise InputError(
        f"port {port} is in use{holder or ''}",
        hint="choose another --master-port, or leave it out to have a free one picked",
    )


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


def _users(port: int) -> tuple[str | None, bool]:
    """Name who holds `port`, as far as this user may see it, and whether it is only fading."""
    import psutil

    holder, fading = None, False
    try:
        connections = psutil.net_connections("tcp")
    except psutil.Error:  # some systems show this to root only
        return None, False
    for connection in connections:
        if not connection.laddr or connection.laddr.port != port:
            continue
        if connection.status in _FADING:
            fading = True
        elif connection.pid:
            return f" by pid {connection.pid} ({_name(connection.pid)})", False
        else:
            holder = " by a process of another user"
    return holder, fading


def _name(pid: int) -> str:
    import psutil

    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "ended meanwhile"
