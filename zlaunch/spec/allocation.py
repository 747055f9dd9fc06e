"""The grant of Slurm that a command runs in, as its environment tells.

Pure. Slurm owns the nodes; a run may use them and no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from zlaunch.errors import InputError, SelectionError
from zlaunch.frozen import frozen
from zlaunch.spec.hostnames import Host, expand

_COMMA = re.compile(r",(?![^\[\]]*\])")  # one that is not inside brackets
_TASKS = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_ID = re.compile(r"[0-9]+")


@frozen
class Allocation:
    """A job and its `nodes`, in Slurm's order.

    `tasks` is how many processes were asked for on each. `here` is the node that this process runs
    on, "" where it is on none of them, as the shell of salloc on a login node. `end` is when the
    job's time ends, in seconds of the epoch, if known.
    """

    job: str
    nodes: tuple[str, ...]
    tasks: tuple[int, ...]
    here: str = ""
    end: float | None = None

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"Slurm's job {self.job}"

    @property
    def first(self) -> Allocation:
        """Its first node alone."""
        return replace(self, nodes=self.nodes[:1], tasks=self.tasks[:1])


def find_allocation(env: Mapping[str, str]) -> Allocation | None:
    """Return the allocation that this environment is of; None outside of any.

    Raises InputError for one that cannot be read.
    """
    job = env.get("SLURM_JOB_ID", "")
    listed = env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or ""
    if not _ID.fullmatch(job) or not listed:
        return None
    nodes = expand_nodelist(listed)
    here = env.get("SLURMD_NODENAME", "")
    end = env.get("SLURM_JOB_END_TIME", "")
    return Allocation(
        job,
        nodes,
        _tasks(env.get("SLURM_TASKS_PER_NODE", ""), len(nodes)),
        here if here in nodes else "",
        float(end) if _ID.fullmatch(end) and int(end) else None,
    )


def expand_nodelist(text: str) -> tuple[str, ...]:
    """Return the names of one of Slurm's lists: `gpu[01-03,07],login1`.

    Raises InputError.
    """
    try:
        return tuple(name for part in _COMMA.split(text.strip()) for name in expand(part))
    except SelectionError as error:
        raise InputError(f"SLURM_JOB_NODELIST={text}: {error.message}") from error


def is_one_of_many(env: Mapping[str, str]) -> bool:
    """Tell whether this is one of several tasks of a step."""
    return env.get("SLURM_STEP_NUM_TASKS", "1") not in {"", "1"}


def check_once(env: Mapping[str, str]) -> None:
    """Refuse to be one of several tasks of a step: each would start the whole run.

    Raises InputError.
    """
    if is_one_of_many(env):
        tasks = env["SLURM_STEP_NUM_TASKS"]
        raise InputError(
            f"srun has started zlaunch {tasks} times, and each would start the whole run",
            hint="leave srun away, since zlaunch starts its own steps; or srun ... zlaunch join",
        )


def within(allocation: Allocation, named: Sequence[Host]) -> tuple[Host, ...]:
    """Return the hosts that a user named, all of which have to be granted.

    Raises SelectionError.
    """
    others = [host.name for host in named if host.name not in allocation.nodes]
    if others:
        few = ", ".join(allocation.nodes[:8]) + (" ..." if len(allocation.nodes) > 8 else "")
        raise SelectionError(
            f"{', '.join(others)}: not among the nodes of {allocation.name}: {few}",
            hint="leave --hostfile and --hosts away to use all; --backend ssh goes past Slurm",
        )
    return tuple(named)


def _tasks(text: str, nodes: int) -> tuple[int, ...]:
    """Read `2(x3),1`; one each where that says nothing of these nodes."""
    parts = [_TASKS.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        return (1,) * nodes
    tasks = [int(part[1]) for part in parts if part for _ in range(min(int(part[2] or 1), nodes))]
    return tuple(tasks) if len(tasks) == nodes and all(tasks) else (1,) * nodes
