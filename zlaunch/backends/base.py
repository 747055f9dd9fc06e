"""What a backend gives the launcher: a link to an agent, a pair of byte streams."""

from __future__ import annotations

from typing import Protocol

ENDED = "has ended"
"""How an agent shows that it is lost where its link came to an end."""
WELL = "exit code 0"
"""How an agent of this machine has ended that had seen to everything."""


class Link(Protocol):
    """An agent that is being reached.

    `incoming` carries its events and `outgoing` its orders; `errors` is what it, its
    interpreter or the way to it prints beside them. All three are descriptors. `greeting` is
    sent before the first order. A `remote` link can break without either end noticing.
    """

    incoming: int
    outgoing: int
    errors: int
    greeting: bytes
    remote: bool

    def explain(self, how: str, words: str, began: bool) -> str:
        """Say in one sentence why the agent was lost: `how` it showed, and its last `words`.

        Those of an agent that `began` are of the run; before, they are of the way to it.
        """
        ...

    def heard(self, words: str) -> tuple[str, ...]:
        """Return what of these words, said beside the link, the user should know at once."""
        ...

    def hang_up(self) -> None:
        """Let go of the agent, upon which it stops its workers and leaves."""
        ...

    def close(self, timeout: float) -> str:
        """Give the agent `timeout` seconds to be gone, clean up, and say how it ended."""
        ...


class Backend(Protocol):
    """A way to reach agents."""

    def open(self, node_rank: int, host: str) -> Link:
        """Begin to reach an agent on `host`, without waiting for it.

        Raises BackendError where that is not possible.
        """
        ...

    def close(self) -> None:
        """Clean up behind all agents, once every link is closed."""
        ...
