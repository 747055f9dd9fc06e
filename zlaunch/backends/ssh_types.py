"""What is used of paramiko's classes, so that naming a type does not import it."""

from __future__ import annotations

from typing import Any, Protocol


class Key(Protocol):
    """A key in memory, or one that ssh-agent holds."""

    def asbytes(self) -> bytes:
        """Its public half."""
        ...

    def get_name(self) -> str:
        """Its kind."""
        ...


class Channel(Protocol):
    """A command on a host, or a connection that a jump host made."""

    closed: bool
    eof_received: bool

    def recv(self, nbytes: int, /) -> bytes:
        """Wait for output."""
        ...

    def recv_stderr(self, nbytes: int, /) -> bytes:
        """Wait for what it prints beside its output."""
        ...

    def recv_ready(self) -> bool:
        """Whether there is output."""
        ...

    def recv_stderr_ready(self) -> bool:
        """Whether there is something beside it."""
        ...

    def fileno(self) -> int:
        """Return a descriptor that is readable while either is there, and from the end on."""
        ...

    def sendall(self, s: Any, /) -> None:
        """Send; wait while the host takes no more."""
        ...

    def shutdown_write(self) -> None:
        """Send the end of input."""
        ...

    def exit_status_ready(self) -> bool:
        """Whether the command's exit code is known."""
        ...

    def recv_exit_status(self) -> int:
        """Wait for it; -1 if there is none."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Transport(Protocol):
    """A connection, with a thread of its own."""

    auth_timeout: float

    def auth_publickey(self, username: str, key: Any, /) -> list[str]:
        """Log in with a key; return what else is asked for."""
        ...

    def auth_none(self, username: str, /) -> list[str]:
        """Log in with nothing; likewise."""
        ...

    def is_active(self) -> bool:
        """Whether it is up."""
        ...

    def is_alive(self) -> bool:
        """Whether its thread lives."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for its thread."""
        ...

    def open_session(self, *, timeout: float | None = None) -> Any:
        """Open the channel of a command."""
        ...

    def open_channel(
        self, kind: str, dest_addr: Any, src_addr: Any, /, *, timeout: float | None = None
    ) -> Any:
        """Open a channel to somewhere else."""
        ...

    def close(self) -> None:
        """Take it down."""
        ...
