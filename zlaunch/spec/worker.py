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
    """All workers of one node and the environment that they share.

    With `inherit` that environment comes on top of the agent's own: a host that was reached
    over a network has one, and only chosen variables travel. Where the interpreter `python` is
    not on the node, the agent's own stands in for it. `files` (path, text) are written
    before the start where they are not there already, and taken away at the end. `preferred`
    names those of `env` that stay as they are on the node where a set-up command made them.
    """

    node_rank: int
    env: Mapping[str, str]
    workers: tuple[WorkerSpec, ...]
    inherit: bool = False
    python: str = ""
    files: tuple[tuple[str, str], ...] = ()
    preferred: tuple[str, ...] = ()
