"""`zlaunch submit`: a run that Slurm starts when there is room, known from now on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zlaunch.cli.multinode import multinode
from zlaunch.cli.question import allowed
from zlaunch.cli.request import ManyHosts
from zlaunch.cli.run import SCRIPT_FOLLOWS, request_of
from zlaunch.cli.signature import borrow
from zlaunch.cli.submit_job import Wish, show, submit_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def submit(
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", "-N", "--num-nodes", metavar="N", help="How many nodes."),
    ] = None,
    gpus_per_node: Annotated[
        str | None,
        typer.Option("--gpus-per-node", metavar="N", help="A rank on each: 8, or a100:4."),
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", "-t", metavar="LIMIT", help="8:00:00, 2-0, minutes.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="NAME", help="As in sbatch.")
    ] = None,
    account: Annotated[
        str | None, typer.Option("--account", "-A", metavar="NAME", help="As in sbatch.")
    ] = None,
    qos: Annotated[str | None, typer.Option("--qos", metavar="NAME", help="As in sbatch.")] = None,
    constraint: Annotated[
        str | None, typer.Option("--constraint", "-C", metavar="FEATURES", help="As in sbatch.")
    ] = None,
    array: Annotated[
        str | None,
        typer.Option("--array", metavar="TASKS", help="A run for each: 0-3, 1,5, 0-99%10."),
    ] = None,
    requeue: Annotated[
        bool,
        typer.Option("--requeue", help="Go on in another start of the job when its time is over."),
    ] = False,
    signal_before: Annotated[
        str | None,
        typer.Option(
            "--signal-before",
            metavar="[NAME@]TIME",
            help="Have ranks get USR1 (or NAME) so long before the end: 120s, 5m.",
        ),
    ] = None,
    sbatch: Annotated[
        list[str] | None,
        typer.Option("--sbatch", metavar="OPTION", help="Any other of sbatch; repeatable."),
    ] = None,
    **options: Any,
) -> None:
    """Submit a run to Slurm, and print its id.

    It is known at once to `ps`, `status`, `logs tail`, `attach`, `wait` and `stop`.
    """
    show_script = options.pop("show_plan")
    many = ManyHosts(
        connect_timeout=options.pop("connect_timeout"),
        heartbeat=options.pop("heartbeat"),
        env=tuple(options.pop("env") or ()),
        env_files=tuple(options.pop("env_file") or ()),
        setup=options.pop("setup"),
    )
    allow = allowed(options.pop("allow"))
    request = request_of(many=many, allow=allow, show_plan=False, as_json=False, **options)
    wish = Wish(
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        time=time,
        partition=partition,
        account=account,
        qos=qos,
        constraint=constraint,
        array=array,
        requeue=requeue,
        signal_before=signal_before,
        sbatch=tuple(sbatch or ()),
    )
    if show_script:
        show(request, wish)
    else:
        submit_run(request, wish)


borrow(
    submit,
    multinode,
    without={
        # which nodes and GPUs those are, Slurm decides
        *("hostfile", "hosts", "num_nodes", "backend", "force_ssh", "ssh", "ssh_host_keys"),
        *("num_gpus", "nproc", "include", "exclude", "idle", "wait", "master_addr"),
        # nobody is at a terminal when it starts
        *("detach", "live", "debug", "stdin_rank", "as_json"),
    },
    helps={
        "cpu": "N workers a node, without GPUs.",
        "console_ranks": "Ranks in console.log, which `attach` shows: 0,-1 or 2-5.",
        "quiet": "Say only what went wrong, here and in console.log.",
        "show_plan": "Print the batch script; submit nothing.",
        "python": "The workers' interpreter on the nodes.",
    },
)
app.command(context_settings=SCRIPT_FOLLOWS)(submit)
