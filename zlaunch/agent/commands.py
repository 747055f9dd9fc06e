"""What a worker is started with on this node: its environment and its interpreter."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from zlaunch.spec.worker import NodePlan, WorkerSpec
from zlaunch.system.cores import usable_cores

# What the shell that ran --setup left for us: the output of `env` before it, and the python3
# that it brought (`backends/remote.py`).
_BEFORE_SETUP = "ZLAUNCH_BEFORE_SETUP"
_SETUP_PYTHON = "ZLAUNCH_SETUP_PYTHON"
_SETTING = re.compile(r"^([A-Za-z_]\w*)=", re.MULTILINE)


def node_environment(plan: NodePlan) -> dict[str, str]:
    """Return what all workers of the node share.

    What --setup made of a variable stays, but for those whose values the user wrote.
    """
    if not plan.inherit:
        shared = dict(plan.env)
    else:
        own = dict(os.environ)
        own.pop(_SETUP_PYTHON, None)
        made = _made_by_setup(own, own.pop(_BEFORE_SETUP, None))
        sent = {
            name: value
            for name, value in plan.env.items()
            if name not in made or name not in plan.preferred
        }
        shared = {**own, **sent}
    shared.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // len(plan.workers))))
    return shared


def _made_by_setup(now: Mapping[str, str], before: str | None) -> set[str]:
    """Name the variables that the set-up command gave a new value."""
    if before is None:
        return set()
    pieces = _SETTING.split(before)[1:]
    old = {name: text.rstrip("\n") for name, text in zip(pieces[::2], pieces[1::2])}
    return {name for name, value in now.items() if old.get(name) != value.rstrip("\n")}


def with_interpreter(plan: NodePlan, spec: WorkerSpec) -> tuple[str, ...]:
    """Return the worker's arguments; our interpreter where the launcher's is not the one here."""
    if not plan.python or spec.argv[0] != plan.python:
        return spec.argv
    ours = _SETUP_PYTHON in os.environ or not os.access(plan.python, os.X_OK)
    return (sys.executable, *spec.argv[1:]) if ours else spec.argv
