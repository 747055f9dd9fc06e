"""Each node by the backend that reaches it: this machine without SSH, others over it."""

from __future__ import annotations

from collections.abc import Mapping

from zlaunch.backends.base import Backend, Link


class SeveralBackends:
    """One backend a node; each is closed once."""

    def __init__(self, backends: Mapping[int, Backend]) -> None:
        self._backends = backends

    def open(self, node_rank: int, host: str) -> Link:
        """Reach the node by its own backend."""
        return self._backends[node_rank].open(node_rank, host)

    def close(self) -> None:
        """Clean up behind all of them."""
        for backend in {id(backend): backend for backend in self._backends.values()}.values():
            backend.close()
