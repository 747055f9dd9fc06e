"""From a request to a run: shows the plan, or looks for the place and carries it out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zlaunch.backends import early_agent
from zlaunch.cli.carry_out import carry_out
from zlaunch.cli.find_place import find_place
from zlaunch.cli.forward_signals import hold_until_started
from zlaunch.cli.gathering import Gathering
from zlaunch.cli.prepare import prepare
from zlaunch.cli.request import Request, check
from zlaunch.cli.stdin_rank import check_terminal
from zlaunch.errors import BatchError
from zlaunch.system.run_store import RunStore, home_directory, new_run_id
from zlaunch.system.rundir import RunDir

if TYPE_CHECKING:
    from zlaunch.system.background import Away


def dry_run(request: Request, *, as_json: bool) -> None:
    """Print what would be started."""
    check(request)
    env = dict(os.environ)
    run = RunStore(home_directory(env)).run(new_run_id())
    with find_place(request, env, gather=None) as place:
        prepared = prepare(request, env, run, place)
    if as_json:
        print(json.dumps(prepared.plan.to_json(), indent=2))  # noqa: T201
        return
    from zlaunch.cli.plan_table import print_plan

    print_plan(prepared)


def start(request: Request) -> int:
    """Run to the end and return the exit code; with --detach to where all workers run."""
    check(request)
    check_terminal(request)
    store = RunStore(home_directory(os.environ))
    run = store.run(new_run_id())
    if request.detach or request.many is not None:  # it would be another's child, or elsewhere
        early_agent.give_up()
    if request.detach:
        from zlaunch.cli.detach import detach  # who stays does not pay for it

        return detach(run, partial(see_through, request, store, run), quiet=request.quiet)
    return see_through(request, store, run)


def see_through(request: Request, store: RunStore, run: RunDir, away: Away | None = None) -> int:
    """Run to the end and return the exit code; the options have been checked."""
    hold_until_started(request.forwarded)
    env = dict(os.environ)
    if request.join is not None:
        _rehearse(request, env, run)
    gathering = Gathering(request, run)
    with gathering.to_its_end():
        if run.adopted is not None:
            gathering(f"the nodes of Slurm's job {run.adopted.job}")
        with find_place(request, env, gather=gathering) as place:
            prepared = prepare(request, env, run, place)
            return carry_out(request, prepared, store, run, env, away)


def _rehearse(request: Request, env: Mapping[str, str], run: RunDir) -> None:
    """Find what is wrong with the input before anybody is waited for.

    Save what depends on the number of ranks, which is not known yet.
    """
    anyhow = replace(request, console_ranks="all", stdin_rank=None)
    with suppress(BatchError), find_place(anyhow, env, gather=None) as place:
        prepare(anyhow, env, run, place)
