"""`--stdin-rank` and `--debug`: which rank reads, and from what."""

from __future__ import annotations

import os
from collections.abc import Mapping

from zlaunch.cli.request import Request
from zlaunch.errors import InputError
from zlaunch.spec.plan import Plan
from zlaunch.spec.ranks import the_rank


def check_terminal(request: Request) -> None:
    """Refuse to debug where nobody could type.

    Raises InputError.
    """
    if not request.debug:
        return
    for fd, name in ((0, "stdin"), (1, "stdout")):
        if not os.isatty(fd):
            raise InputError(
                f"--debug needs a terminal, and {name} is none",
                hint=f"--stdin-rank {request.stdin_rank or 0} takes a pipe or a file",
            )


def with_reader(request: Request, plan: Plan, env: Mapping[str, str]) -> Plan:
    """Return the plan with the rank that reads, if one is to.

    Raises InputError where there is no such rank.
    """
    if request.stdin_rank is None and not request.debug:
        return plan
    rank = the_rank(request.stdin_rank or 0, plan.topology.world_size, "--stdin-rank")
    if not request.debug:
        return plan.with_stdin(rank, "pipe", {})
    # Programs have to know what terminal is at the other end, on whatever host they run.
    return plan.with_stdin(rank, "terminal", {"TERM": env.get("TERM", "dumb")})


def introduce_debugging(plan: Plan) -> str:
    """Say who has the terminal, how to end it, and what happens to those that wait."""
    rank = next(spec.rank for spec in plan.workers if spec.stdin == "terminal")
    words = f"rank {rank} has this terminal; Ctrl-\\ ends the run"
    if len(plan.workers) > 1:
        words += "; ranks that wait for it in a collective give up after 10 to 30 min"
    return words
