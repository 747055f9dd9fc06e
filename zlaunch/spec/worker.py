"""What an agent is told to start: one `WorkerSpec` a rank, one `NodePlan` a node.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from zlaunch.frozen import frozen

Stdin = Literal["null", "pipe", "terminal"]
"""What a worker reads: nothing, what the launcher reads, or a terminal for all it says."""

# Together in an environment, they are the mark of what a node's workers have started.
_MARK = ("ZLAUNCH_RUN_ID", "ZLAUNCH_NODE_RANK")


@frozen
class WorkerSpec:
    """One process: its global rank, argument vector and own part of the environment.

    `env` comes on top of the node's; `cwd` None means the agent's own directory. `stdin` is
    not "null" for one worker of a run at most.
    """

    rank: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    stdin: Stdin = "null"


@frozen
class Preload:
    """What one process of a node imports for all its workers, before it forks them.

    `imports` are statements of the script, in their order, each with the line that it stands in;
    that holds where `sources` (path, SHA-256 or None for no file) are as they were read. `files`
    (name, text) are the program that executes them. What takes longer than `within` seconds
    is given up. Where the user has `asked` for it, it is said why ranks cannot be forked; else only
    what has cost time is.
    """

    imports: tuple[tuple[int, str], ...]
    files: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    within: float = 120.0
    asked: bool = False
    sources: tuple[tuple[str, str | None], ...] = ()


@frozen
class Operators:
    """What DeepSpeed's ranks would compile when they first use it, built before they start.

    `builders` are pairs of an operator's name and the class that builds it; `files` (name, text)
    are the program that does, the first of them. One that takes longer than `within` seconds is
    given up.
    """

    builders: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    within: float = 600.0

    def arguments(self, script: str) -> tuple[str, ...]:
        """What the program is told: the directory of the ranks' script, and what to build."""
        folder = script.rpartition("/")[0] or ("/" if script.startswith("/") else ".")
        return (folder, *(f"{name}={builder}" for name, builder in self.builders))


@frozen
class NodePlan:
    """All workers of one node and the environment that they share.

    With `inherit` that environment comes on top of the agent's own: a host that was reached
    over a network has one, and only chosen variables travel. Where the interpreter `python` is
    not on the node, the agent's own stands in for it. `files` (path, text) are written
    before the start where they are not there already, and taken away at the end. `preferred`
    names those of `env` that stay as they are on the node where a set-up command made them. With
    `preload` workers are forked from a process that has it imported, where that can be done. What
    `operators` names is built before they start.
    """

    node_rank: int
    env: Mapping[str, str]
    workers: tuple[WorkerSpec, ...]
    inherit: bool = False
    python: str = ""
    files: tuple[tuple[str, str], ...] = ()
    preferred: tuple[str, ...] = ()
    preload: Preload | None = None
    operators: Operators | None = None

    @property
    def mark(self) -> tuple[str, ...]:
        """Entries that stand in the environment of whatever the workers start, and nowhere else.

        Empty where the workers are of no run.
        """
        env = self.workers[0].env if self.workers else {}
        return tuple(f"{name}={env[name]}" for name in _MARK) if env.keys() >= set(_MARK) else ()
