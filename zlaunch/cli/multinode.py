"""`zlaunch multinode`: one command trains on many hosts, reached over SSH."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zlaunch.cli.allocation import ManyBackend, for_many
from zlaunch.cli.options import AllowOption, PreflightOption
from zlaunch.cli.question import allowed
from zlaunch.cli.request import HostKeys, ManyHosts, SshChoice
from zlaunch.cli.run import SCRIPT_FOLLOWS, request_of, run
from zlaunch.cli.signature import borrow
from zlaunch.cli.start import dry_run, start
from zlaunch.cli.waiting import WithWait

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def multinode(
    hostfile: Annotated[
        str | None,
        typer.Option("--hostfile", "-H", metavar="FILE", help="A host a line: gpu01 slots=8."),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts", help="Instead: a,b,c:4 or node[01-16]:8; all GPUs where no number is."
        ),
    ] = None,
    num_nodes: Annotated[
        int | None, typer.Option("--num-nodes", metavar="N", help="The first N hosts.")
    ] = None,
    backend: Annotated[
        ManyBackend,
        typer.Option("--backend", help="auto: in an allocation of Slurm by srun, else by SSH."),
    ] = "auto",
    force_ssh: Annotated[
        bool,
        typer.Option("--force-ssh", help="Reach this machine, where it is a host, by SSH too."),
    ] = False,
    ssh: Annotated[
        SshChoice, typer.Option("--ssh", help="openssh: the system's ssh, for GSSAPI and the like.")
    ] = "paramiko",
    ssh_host_keys: Annotated[
        HostKeys,
        typer.Option("--ssh-host-keys", help="Of unknown hosts: refuse, or accept and note."),
    ] = "strict",
    connect_timeout: Annotated[
        float, typer.Option("--connect-timeout", metavar="SECONDS", help="Until a host answers.")
    ] = 15.0,
    heartbeat: Annotated[
        float, typer.Option("--heartbeat", metavar="SECONDS", help="Until a silent host is lost.")
    ] = 15.0,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME[=VALUE]", help="Also send this variable; repeatable."),
    ] = None,
    env_file: Annotated[
        list[str] | None, typer.Option("--env-file", metavar="FILE", help="NAME=VALUE a line.")
    ] = None,
    setup: Annotated[
        str | None,
        typer.Option(
            "--setup", metavar="COMMAND", help="Run it first, in the login shell of each host."
        ),
    ] = None,
    preflight: PreflightOption = True,
    allow: AllowOption = None,
    **options: Any,
) -> None:
    """Train on many hosts: the same as `run`, on each.

    Hosts need SSH and Python; zlaunch need not be installed there. In an allocation of Slurm they
    are its nodes, and need no SSH.
    """
    many = ManyHosts(
        hostfile=hostfile,
        hosts=hosts,
        num_nodes=num_nodes,
        force_ssh=force_ssh,
        ssh=ssh,
        ssh_host_keys=ssh_host_keys,
        connect_timeout=connect_timeout,
        heartbeat=heartbeat,
        env=tuple(env or ()),
        env_files=tuple(env_file or ()),
        setup=setup,
        allocation=for_many(backend),
    )
    show_plan, as_json = options["show_plan"], options["as_json"]
    request = request_of(many=many, preflight=preflight, allow=allowed(allow), **options)
    if show_plan:
        dry_run(request, as_json=as_json)
        raise typer.Exit(0)
    raise typer.Exit(start(request))


borrow(
    multinode,
    run,
    without={"gpus"},
    helps={
        "num_gpus": "The first N slots of each host.",
        "nproc": "The first N slots of each host.",
        "cpu": "N workers a host, without GPUs.",
        "idle": "GPUs of each host that nobody uses, the first N of its slots, or all.",
        "include": "As in deepspeed: gpu01:0,2@gpu02.",
        "exclude": "As in deepspeed: gpu01:1.",
        "python": "The workers' interpreter on the hosts.",
    },
)
app.command(cls=WithWait, context_settings=SCRIPT_FOLLOWS)(multinode)
