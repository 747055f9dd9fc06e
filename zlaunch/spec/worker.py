"""What an agent is told to start: one `WorkerSpec` a rank, one `NodePlan` a node.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerSpec:
    """One process: its global rank, argument vector and own part of the environment.

    `env` comes on top of the node's; `cwd` None means the agent's own directory.
    """

    rank: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None


@dataclass(frozen=True)
class NodePlan:
    """All workers of one node and the environment that they share."""

    node_rank: int
    env: Mapping[str, str]
    workers: tuple[WorkerSpec, ...]
