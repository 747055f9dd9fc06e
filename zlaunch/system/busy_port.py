"""A port that the user named: reserved, or refused with the name of who holds it."""

from __future__ import annotations

import errno
import socket

from zlaunch.errors import InputError
from zlaunch.system.ports import ReservedPort

# psutil's names of states in which a connection has been closed by its process.
_FADING = ("TIME_WAIT", "FIN_WAIT1", "FIN_WAIT2", "LAST_ACK", "CLOSING", "CLOSE")


def reserve(port: int = 0) -> ReservedPort:
    """Reserve `port`, or any free one for 0.

    Raises InputError where it is busy.
    """
    try:
        return ReservedPort(port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise _not_to_be_had(port, error, "or leave --master-port out") from error
    # Connections of an earlier run may still be fading out (TIME_WAIT); they disturb nobody.
    holder, fading = _users(port)
    if holder is None and fading:
        return ReservedPort(port, reuse=True)
    raise InputError(
        f"port {port} is in use{holder or ''}",
        hint="choose another --master-port, or leave it out to have a free one picked",
    )


def listen(port: int, way_out: str, address: str = "") -> socket.socket:
    """Listen on `port`, for IPv4 and IPv6 where the machine has both; or at one IPv4 address.

    Raises InputError where it is busy; `way_out` is what the user may do then.
    """
    dual = socket.has_dualstack_ipv6() and not address
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        return socket.create_server(
            (address, port), family=family, backlog=1024, dualstack_ipv6=dual
        )
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise _not_to_be_had(port, error, way_out) from error
    holder, _ = _users(port)
    raise InputError(f"port {port} is in use{holder or ''}", hint=way_out)


def _not_to_be_had(port: int, error: OSError, way_out: str) -> Exception:
    if error.errno != errno.EACCES:
        return error
    return InputError(
        f"port {port} may not be used: {error.strerror}", hint=f"choose one above 1023, {way_out}"
    )


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
