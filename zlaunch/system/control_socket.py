"""The socket in a run directory at which its launcher can be spoken to: `control.sock`.

The address of a socket holds 107 bytes, and the path of a run directory may be longer: then it is
gone to by way of a descriptor of the directory, which has a short name under /proc.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zlaunch.errors import ZlaunchError
from zlaunch.run.control import ControlError, parse_answer
from zlaunch.system.rundir import RunDir

NAME = "control.sock"
_LONGEST_ADDRESS = 107  # bytes
_CHUNK = 256 << 10
_PEER = struct.Struct("3i")  # pid, uid, gid


class NoAnswerError(ZlaunchError):
    """Nobody answers at the socket: the launcher is gone, about to go, or not there yet."""


@contextmanager
def _address(run: RunDir) -> Iterator[str]:
    path = str(run.path / NAME)
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield path
        return
    fd = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{NAME}"
    finally:
        os.close(fd)


def listen(run: RunDir) -> socket.socket | None:
    """Listen for requests about a run; None where its file system has no sockets."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(run) as address:
            listener.bind(address)
            (run.path / NAME).chmod(0o600)
        listener.listen()
        listener.setblocking(False)
    except OSError:
        listener.close()
        return None
    return listener


def remove(run: RunDir) -> None:
    """Take the socket's name away."""
    with suppress(OSError):
        (run.path / NAME).unlink(missing_ok=True)


def is_ours(connection: socket.socket) -> bool:
    """Whether who has connected is this user, or root."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the directory is this user's alone
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return _PEER.unpack(peer)[1] in {0, os.geteuid()}


def converse(run: RunDir, line: bytes, within: float) -> socket.socket:
    """Send a request that is answered again and again, and return where the answers come.

    Raises NoAnswerError where there is nobody.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(within)
        with _address(run) as address:
            connection.connect(address)
        connection.sendall(line)
        connection.setblocking(False)
    except OSError as error:
        connection.close()
        raise _nobody(run, error) from error
    return connection


def _nobody(run: RunDir, error: OSError) -> NoAnswerError:
    words = f"the launcher of run {run.id} cannot be reached: {error.strerror or error}"
    return NoAnswerError(words)


def ask(run: RunDir, line: bytes, within: float) -> dict[str, object]:
    """Send a request to the launcher of a run, and return the fields of its answer.

    Raises NoAnswerError where there is nobody, ZlaunchError where it cannot be done.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(within)
            with _address(run) as address:
                connection.connect(address)
            connection.sendall(line)
            data = b"".join(iter(lambda: connection.recv(_CHUNK), b""))
    except TimeoutError as error:
        raise ZlaunchError(
            f"the launcher of run {run.id} did not answer within {within:g} s",
            hint="is it stopped (SIGSTOP, Ctrl-Z)?",
        ) from error
    except OSError as error:
        raise _nobody(run, error) from error
    if not data:
        raise NoAnswerError(f"the launcher of run {run.id} gave no answer: it is just ending")
    try:
        return parse_answer(data)
    except ControlError as error:
        raise ZlaunchError(f"run {run.id}: {error}") from error
