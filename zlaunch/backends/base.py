"""What a backend gives the launcher: a link to an agent, a pair of byte streams."""

from __future__ import annotations

from typing import Protocol


class Link(Protocol):
    """An agent that has been reached.

    `incoming` carries its events and `outgoing` its orders; `errors` is what it or its
    interpreter prints beside them. All three are descriptors.
    """

    host: str
    incoming: int
    outgoing: int
    errors: int

    def close(self, timeout: float) -> str:
        """Let go of the agent, wait `timeout` seconds for its end, and say how it ended."""
        ...


class Backend(Protocol):
    """A way to reach agents."""

    def open(self, node_rank: int, host: str) -> Link:
        """Start an agent on `host`.

        Raises BackendError where that is not possible.
        """
        ...

    def close(self) -> None:
        """Clean up behind all agents, once every link is closed."""
        ...
