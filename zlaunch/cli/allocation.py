"""Decides whether a command goes by Slurm: what --backend says, and where it was typed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from zlaunch.cli.request import ManyHosts
from zlaunch.errors import InputError
from zlaunch.spec.allocation import Allocation, check_once, find_allocation

if TYPE_CHECKING:
    from zlaunch.launcher.forwarding import Forwarding
    from zlaunch.launcher.time_left import TimeLeft
    from zlaunch.system.loop import Loop

RunBackend = Literal["auto", "local", "slurm"]
ManyBackend = Literal["auto", "ssh", "slurm"]

_NONE = "this is no allocation of Slurm (SLURM_JOB_ID and SLURM_JOB_NODELIST are not set)"
_HINT = "salloc or sbatch makes one"


def for_many(backend: ManyBackend, env: Mapping[str, str] | None = None) -> Allocation | None:
    """Return the allocation that a command for many nodes goes by; None for SSH.

    Raises InputError.
    """
    env = os.environ if env is None else env
    if backend == "ssh":
        return None
    found = _asked_for(backend, env)
    if found is None:
        return None
    check_once(env)
    return found


def for_one(backend: RunBackend, env: Mapping[str, str] | None = None) -> ManyHosts | None:
    """Return how `run` reaches the one node that it trains on; None for this machine.

    That is the first one of an allocation, where this machine is none of its nodes.
    Raises InputError.
    """
    env = os.environ if env is None else env
    if backend == "local":
        return None
    found = _asked_for(backend, env)
    if found is None:
        return None
    if found.here and backend == "auto":
        return None
    check_once(env)
    if found.here:
        nodes, tasks = (found.here,), (found.tasks[found.nodes.index(found.here)],)
        return ManyHosts(allocation=replace(found, nodes=nodes, tasks=tasks), alone=True)
    return ManyHosts(allocation=found.first, alone=True)


def job_of(many: ManyHosts | None, env: Mapping[str, str]) -> str:
    """The job that the ranks of a run are in, or its launcher; "" for none."""
    if many is not None and many.allocation is not None:
        return many.allocation.job
    try:
        found = find_allocation(env)
    except InputError:
        return ""
    return found.job if found is not None and found.here else ""


def job_time(
    allocation: Allocation | None, loop: Loop, say: Callable[[str], None], forwarding: Forwarding
) -> TimeLeft | None:
    """Have it told when the job's time is nearly over, and what was done about a warning of it."""
    if allocation is None:
        return None
    from zlaunch.launcher.time_left import TimeLeft  # who is in no job does not pay for it

    time_left = TimeLeft(allocation, loop, say)
    forwarding.on_passed = time_left.warned
    return time_left


def _asked_for(backend: str, env: Mapping[str, str]) -> Allocation | None:
    found = find_allocation(env)
    if found is None and backend == "slurm":
        raise InputError(f"--backend slurm: {_NONE}", hint=_HINT)
    return found
