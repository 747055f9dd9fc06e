"""`zlaunch join`: the same command on every node, which find each other without SSH."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import Annotated, Any

import typer

from zlaunch.cli.forward_signals import hold_until_started
from zlaunch.cli.options import AllowOption, PreflightOption
from zlaunch.cli.question import allowed
from zlaunch.cli.request import Join, Request, check
from zlaunch.cli.run import SCRIPT_FOLLOWS, request_of, run
from zlaunch.cli.signature import borrow
from zlaunch.cli.start import dry_run, start
from zlaunch.cli.waiting import WithWait
from zlaunch.run.messages import Start
from zlaunch.spec.environment import OWNED
from zlaunch.spec.joining import Membership, find_membership
from zlaunch.system.background import Away

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def join(
    nnodes: Annotated[
        int | None, typer.Option("--nnodes", metavar="N", help="How many nodes take part.")
    ] = None,
    node_rank: Annotated[
        int | None, typer.Option("--node-rank", metavar="R", help="Which one this is, from 0 on.")
    ] = None,
    rendezvous: Annotated[
        str | None,
        typer.Option("--rendezvous", metavar="HOST:PORT", help="Where node 0 listens for nodes."),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", metavar="FILE", help="A secret, the same on every node."),
    ] = None,
    join_timeout: Annotated[
        float, typer.Option("--join-timeout", metavar="SECONDS", help="Until all nodes are there.")
    ] = 300.0,
    heartbeat: Annotated[
        float, typer.Option("--heartbeat", metavar="SECONDS", help="Until a silent node is lost.")
    ] = 15.0,
    preflight: PreflightOption = True,
    allow: AllowOption = None,
    **options: Any,
) -> None:
    """Train on many nodes: start this on each, with the arguments of its own SCRIPT.

    Rank, number and address are also read from PET_*, SLURM_*, JOB_COMPLETION_INDEX, or
    RANK, WORLD_SIZE and MASTER_ADDR meant for nodes. Options about the run count on node 0.
    """
    env = dict(os.environ)
    member = find_membership(env, nnodes=nnodes, node_rank=node_rank, rendezvous=rendezvous)
    joining = Join(member, token_file, join_timeout, heartbeat)
    show_plan, as_json = options["show_plan"], options["as_json"]
    request = request_of(join=joining, preflight=preflight, allow=allowed(allow), **options)
    if show_plan:
        _introduce(member)
        dry_run(request, as_json=as_json)
        raise typer.Exit(0)
    _forget_outer_launch()
    signal.signal(signal.SIGTERM, _stopped)  # the kernel gives a container's first process none
    if member.node_rank == 0:
        raise typer.Exit(start(request))
    if not request.detach:
        raise typer.Exit(_take_part(request, joining, env))
    check(request)
    raise typer.Exit(_detach(request, joining, env))


def _introduce(member: Membership) -> None:
    from zlaunch.cli.join_place import say

    by = ", ".join(dict.fromkeys(member.told_by))
    at = f"; node 0 listens at {member.endpoint}" if member.host else ""
    say(f"this is node {member.node_rank} of {member.nnodes}{at} (by {by})")
    if member.nnodes > 1:
        say("the plan takes the other nodes for like this one; nobody was asked")


def _forget_outer_launch() -> None:
    """Workers inherit each node's own environment, but nothing of another world."""
    for name in OWNED:
        os.environ.pop(name, None)


def _stopped(signum: int, _frame: FrameType | None) -> None:
    from zlaunch.cli.join_place import say

    say(f"stopped by {signal.Signals(signum).name}")
    raise SystemExit(128 + signum)


def _detach(request: Request, joining: Join, env: Mapping[str, str]) -> int:
    """Be one without this terminal, from the moment on when the run begins."""
    from zlaunch.cli.detach import detach, on_member
    from zlaunch.system.run_store import RunStore, home_directory, new_run_id

    place = RunStore(home_directory(env)).joined(new_run_id())

    def take_part(away: Away) -> int:
        def tell(start: Start) -> None:
            (run_id,) = {spec.env["ZLAUNCH_RUN_ID"] for spec in start.plan.workers}
            place.name_console(f"{run_id}-node-{joining.member.node_rank}.log")
            away.starting()
            away.running(run_id)

        return _take_part(request, joining, env, tell)

    told = partial(on_member, place.path.parent, joining.member.node_rank)
    return detach(place, take_part, told, quiet=request.quiet)


def _take_part(
    request: Request,
    joining: Join,
    env: Mapping[str, str],
    on_start: Callable[[Start], None] = lambda _: None,
) -> int:
    """Be one of the other nodes to the end of the run, and return the run's exit code."""
    from zlaunch.agent.join import Member
    from zlaunch.cli.join_place import own_hello, say
    from zlaunch.cli.token_file import read_token

    check(request)
    hold_until_started(request.forwarded)
    hello = own_hello(request, joining, env)
    token, note = read_token(joining.token_file)
    if note is not None:
        say(note, unless=request.quiet)
    where = joining.member.host, joining.member.port
    tell = partial(say, unless=request.quiet)
    member = Member(hello, where, token, joining.heartbeat, tell, on_start)
    end = member.take_part(joining.timeout)
    say(end.words, unless=request.quiet and end.exit_code == 0)
    return end.exit_code


borrow(join, run, without={"num_nodes", "hostfile", "metrics_port", "backend"})
app.command(cls=WithWait, context_settings=SCRIPT_FOLLOWS)(join)
