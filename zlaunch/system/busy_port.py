"""A port that the user named: reserved, or refused with the name of who holds it."""

from __future__ import annotations

import errno

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
        return ReservedPort(port, reuse=True)
    raise InputError(
        f"port {port} is in use{holder or ''}",
        hint="choose another --master-port, or leave it out to have a free one picked",
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
