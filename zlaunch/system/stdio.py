"""What a worker reads from and writes to: its ends, and ours.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios

from zlaunch.frozen import frozen
from zlaunch.spec.worker import Stdin

# fcntl(2); not in the standard library of Python 3.9.
_F_SETPIPE_SZ, _F_GETPIPE_SZ = 1031, 1032
# Bytes. The system lets each user have 64 MiB in pipes before it makes new ones tiny, so what
# a rank takes has to leave room for hundreds of them.
_PIPE_SIZE = 256 << 10

_LINUX = sys.platform.startswith("linux")
_IUTF8 = 0o40000 if _LINUX else 0  # not in the standard library: erase characters, not bytes
_IFLAG = 0  # where termios keeps it


@frozen
class Stdio:
    """Descriptors: `stdin` and `out` are the worker's; we read `reading` and write `typing`.

    `out` is both stdout and stderr, so that their order is the worker's. `typing` is None where
    the worker reads nothing. Ours do not block.
    """

    stdin: int
    out: int
    reading: int
    typing: int | None
    terminal: bool

    @classmethod
    def open(cls, stdin: Stdin) -> Stdio:
        """Make pipes, or a terminal.

        Raises OSError.
        """
        if stdin == "terminal":
            ours, theirs = _new_terminal()
            os.set_blocking(ours, False)
            _erase_characters(theirs)
            return cls(theirs, theirs, ours, os.dup(ours), terminal=True)
        reading, out = os.pipe()
        enlarge_pipe(out)
        os.set_blocking(reading, False)
        if stdin == "null":
            return cls(subprocess.DEVNULL, out, reading, None, terminal=False)
        theirs, typing = os.pipe()
        enlarge_pipe(typing)
        os.set_blocking(typing, False)
        return cls(theirs, out, reading, typing, terminal=False)

    def close_theirs(self) -> None:
        """Let go of the worker's ends: it has them, or never will."""
        for fd in {self.stdin, self.out} - {subprocess.DEVNULL}:
            os.close(fd)

    def close_ours(self) -> None:
        """Let go of our ends."""
        os.close(self.reading)
        if self.typing is not None:
            os.close(self.typing)


def _new_terminal() -> tuple[int, int]:
    try:
        return os.openpty()
    except OSError as error:  # which names no file
        raise OSError(error.errno, error.strerror, "a terminal for --debug (/dev/ptmx)") from None


def enlarge_pipe(fd: int) -> None:
    """Make a pipe hold more than the usual 64 KiB: fewer switches for the same bytes."""
    if _LINUX:
        try:
            if fcntl.fcntl(fd, _F_GETPIPE_SZ) < _PIPE_SIZE:
                fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:
            return  # over the user's quota; the default size does


def _erase_characters(terminal: int) -> None:
    """Have backspace take away all bytes of a character, as terminals are set up today."""
    mode = termios.tcgetattr(terminal)
    mode[_IFLAG] |= _IUTF8
    termios.tcsetattr(terminal, termios.TCSANOW, mode)


def resize(terminal: int, rows: int, columns: int) -> None:
    """Set the size of a terminal; the kernel tells whoever is in front of it."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def take_terminal() -> None:
    """In the child, a session's leader: make the terminal at 0 its controlling one.

    Then Ctrl-C and Ctrl-Z typed there are signals, and /dev/tty is it.
    """
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
