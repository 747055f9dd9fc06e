"""An agent on this machine: a child process that needs no more than this interpreter."""

from __future__ import annotations

from zlaunch.backends import early_agent
from zlaunch.backends.process import ProcessLink
from zlaunch.backends.remote import Entrance, explain_failure
from zlaunch.system.spawn import adopt_orphans, sweep


class EnteredLink(ProcessLink):
    """A link to an agent that a shell starts."""

    def explain(self, how: str, words: str, began: bool) -> str:
        """Name the cause, where it is one that can be told from the words."""
        return explain_failure(self.host, self.ended(how), words, began)


class LocalBackend:
    """Reaches agents on this machine."""

    def __init__(self, entrance: Entrance | None = None) -> None:
        """With an `entrance` the agent begins as on another host, by way of the login shell."""
        self._entrance = entrance
        # Should an agent be killed, what its workers started comes to us, and is ended by us.
        adopt_orphans()

    def open(self, node_rank: int, host: str) -> ProcessLink:
        """Start an agent here."""
        if self._entrance is not None:
            argv = ["/bin/sh", "-c", self._entrance.command]
            greeting = self._entrance.greeting(node_rank)
            return EnteredLink(argv, host, greeting=greeting, remote=False)
        return early_agent.take(node_rank, host) or ProcessLink(
            early_agent.command(node_rank), host, greeting=b"", remote=False
        )

    def close(self) -> None:
        """End what agents that were killed have left behind."""
        sweep()
