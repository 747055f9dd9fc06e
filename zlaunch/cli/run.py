"""`zlaunch run`: one command trains on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zlaunch.cli.allocation import RunBackend, for_one
from zlaunch.cli.forward_signals import DEFAULT as FORWARDED
from zlaunch.cli.options import (
    AccumulateOption,
    BuildOpsOption,
    GlobalBatchOption,
    HangTimeoutOption,
    IdleOption,
    LeaseDirOption,
    LiveOption,
    LogMaxOption,
    MetricsPortOption,
    MicroBatchOption,
    OnExitOption,
    OnHangOption,
    OverridesOption,
    PreloadOption,
    ShareGpusOption,
    StacksOption,
    StartOption,
    WaitOption,
)
from zlaunch.cli.request import (
    DeviceChoice,
    Join,
    LocalRankArg,
    ManyHosts,
    Precision,
    Request,
    TargetChoice,
)
from zlaunch.cli.start import dry_run, start
from zlaunch.cli.waiting import WithWait
from zlaunch.errors import InputError

# Of every command that ends in a script and its arguments.
SCRIPT_FOLLOWS: dict[str, Any] = {
    "allow_interspersed_args": False,  # what follows the script is the script's
    "token_normalize_func": lambda name: name.replace("_", "-"),  # --num_gpus too
    "help_option_names": ["-h", "--help"],
}

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=WithWait, context_settings=SCRIPT_FOLLOWS)
def run(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="Script, -m module or program.")],
    args: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Its own; left as typed.")
    ] = None,
    num_gpus: Annotated[
        int | None, typer.Option("--num-gpus", metavar="N", help="The first N visible GPUs.")
    ] = None,
    gpus: Annotated[
        str | None, typer.Option("--gpus", help="These GPUs: 0,2 or 0-3 or UUIDs.")
    ] = None,
    include: Annotated[
        str | None, typer.Option("--include", "-i", help="As in deepspeed: localhost:0,2.")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option("--exclude", "-e", help="As in deepspeed: localhost:1.")
    ] = None,
    cpu: Annotated[
        int | None, typer.Option("--cpu", metavar="N", help="N workers without GPUs.")
    ] = None,
    device: Annotated[DeviceChoice, typer.Option("--device", help="What to train on.")] = "auto",
    nproc: Annotated[
        int | None, typer.Option("--nproc", metavar="N", help="Workers on this machine.")
    ] = None,
    idle: IdleOption = False,
    wait: WaitOption = None,
    share_gpus: ShareGpusOption = False,
    lease_dir: LeaseDirOption = None,
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", "-r", help="zero2 (default), zero3, ddp, ... or FILE.toml."),
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option("--precision", help="Default: bf16 where it can.")
    ] = None,
    overrides: OverridesOption = None,
    micro_batch: MicroBatchOption = None,
    global_batch: GlobalBatchOption = None,
    accumulate: AccumulateOption = None,
    ds_config: Annotated[
        str | None, typer.Option("--ds-config", metavar="FILE", help="Your own, not a recipe.")
    ] = None,
    ds_arg: Annotated[
        str | None,
        typer.Option("--ds-arg", metavar="NAME", help="Append NAME PATH to SCRIPT's arguments."),
    ] = None,
    target: Annotated[
        TargetChoice, typer.Option("--target", help="Who reads the ds_config.")
    ] = "auto",
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is a module.")] = False,
    no_python: Annotated[bool, typer.Option("--no-python", help="SCRIPT is a program.")] = False,
    python: Annotated[
        str | None, typer.Option("--python", metavar="PATH", help="The workers' interpreter.")
    ] = None,
    local_rank_arg: Annotated[
        LocalRankArg,
        typer.Option("--local-rank-arg", help="Add --local_rank=N; auto: where SCRIPT reads it."),
    ] = "auto",
    no_local_rank: Annotated[
        bool, typer.Option("--no-local-rank", help="As --local-rank-arg never.")
    ] = False,
    master_addr: Annotated[
        str | None, typer.Option("--master-addr", help="Where rank 0 listens.")
    ] = None,
    master_port: Annotated[int, typer.Option("--master-port", help="0: a free one is picked.")] = 0,
    detach: Annotated[
        bool,
        typer.Option("--detach", "-d", help="Leave the terminal; print the run's id once it runs."),
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="A name for the run.")] = None,
    console_ranks: Annotated[
        str,
        typer.Option("--console-ranks", help="Ranks on the screen: 0,-1 or 2-5."),
    ] = "all",
    log_max: LogMaxOption = None,
    stdin_rank: Annotated[
        int | None,
        typer.Option("--stdin-rank", metavar="N", help="Which rank reads stdin; else none does."),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Give rank 0, or that of --stdin-rank, the terminal.")
    ] = False,
    live: LiveOption = False,
    grace: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", help="From TERM to KILL on stopping.")
    ] = 30.0,
    max_restarts: Annotated[
        int, typer.Option("--max-restarts", metavar="N", help="Start again after a failure.")
    ] = 0,
    healthy_after: Annotated[
        float,
        typer.Option("--healthy-after", metavar="SECONDS", help="Sooner failures are final."),
    ] = 30.0,
    exit_limit: Annotated[
        float | None,
        typer.Option("--exit-limit", metavar="SECONDS", help="For others once a rank is done."),
    ] = None,
    hang_timeout: HangTimeoutOption = None,
    on_hang: OnHangOption = "report",
    stacks: StacksOption = True,
    metrics_port: MetricsPortOption = None,
    start_how: StartOption = "auto",
    preload: PreloadOption = None,
    build_ops: BuildOpsOption = True,
    forward_signals: Annotated[
        str,
        typer.Option("--forward-signals", metavar="NAMES", help="They go to the ranks; or none."),
    ] = FORWARDED,
    backend: Annotated[
        RunBackend,
        typer.Option(
            "--backend",
            help="local: here; slurm: the job's first node; auto: here, unless a job is elsewhere.",
        ),
    ] = "auto",
    on_exit: OnExitOption = None,
    num_nodes: Annotated[int | None, typer.Option("--num-nodes", hidden=True)] = None,
    hostfile: Annotated[str | None, typer.Option("--hostfile", "-H", hidden=True)] = None,
    show_plan: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan; start nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
) -> None:
    """Train on this machine: one worker per GPU, or N on the CPU.

    What follows SCRIPT is passed on as typed. {ds_config} in it becomes the path of the
    ds_config.json, which the script also finds in ZLAUNCH_DS_CONFIG.
    """
    options = dict(locals())
    _refuse_many_nodes(num_nodes, hostfile)
    request = request_of(many=for_one(backend), **options)
    if show_plan:
        dry_run(request, as_json=as_json)
        raise typer.Exit(0)
    raise typer.Exit(start(request))


def request_of(many: ManyHosts | None = None, join: Join | None = None, **options: Any) -> Request:
    """Return the request that the options of `run`, by their names, make.

    Raises InputError.
    """
    if options["as_json"] and not options["show_plan"]:
        raise InputError("--json shows the plan as data", hint="give it together with --dry-run")
    if options["no_local_rank"]:
        options["local_rank_arg"] = "never"
    options["start"] = options.pop("start_how")
    fields = {name: options[name] for name in Request.__dataclass_fields__ if name in options}
    for name in ("args", "overrides"):
        fields[name] = tuple(fields[name] or ())
    return Request(**fields, many=many, join=join)


def _refuse_many_nodes(num_nodes: int | None, hostfile: str | None) -> None:
    """DeepSpeed's options for several machines: one node is what `run` is for."""
    if hostfile is not None or num_nodes not in {None, -1, 1}:
        given = f"--hostfile {hostfile}" if hostfile else f"--num-nodes {num_nodes}"
        hint = "zlaunch multinode --hostfile FILE ..."
        raise InputError(f"{given}: zlaunch run trains on this machine alone", hint=hint)
