"""From what the user asked for to a plan: looks at this machine, starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from zlaunch.cli.ds_config import DsConfig, make_ds_config
from zlaunch.cli.operators import operators_for
from zlaunch.cli.place import Place
from zlaunch.cli.question import question
from zlaunch.cli.request import PLACEHOLDER, Request
from zlaunch.cli.stdin_rank import with_reader
from zlaunch.cli.target import command_prefix, read_facts
from zlaunch.cli.warm import preload_of
from zlaunch.dsconfig.render import to_json
from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.launcher.preflight import Asked
from zlaunch.spec.environment import (
    Surroundings,
    Target,
    replaced,
)
from zlaunch.spec.hostfile import Host
from zlaunch.spec.plan import Command, Plan, make_plan
from zlaunch.spec.ranks import parse_ranks
from zlaunch.spec.script import ScriptFacts
from zlaunch.spec.topology import lay_out
from zlaunch.system.rundir import RunDir


@frozen
class Prepared:
    """Everything that is decided before the first process.

    `uses_ds_config` is false where neither the user nor the script speaks of the ds_config,
    which then lies there unread. `asked` is what the nodes are looked at for, None for not at
    all.
    """

    plan: Plan
    place: Place
    ds: DsConfig
    uses_ds_config: bool
    console_ranks: frozenset[int]
    notes: tuple[str, ...]
    details: tuple[str, ...]
    asked: Asked | None = None


def prepare(request: Request, env: Mapping[str, str], run: RunDir, place: Place) -> Prepared:
    """Return the plan of a run at `place`.

    Raises InputError (or another ZlaunchError) for what cannot be done as asked.
    """
    cwd = working_directory()
    facts = read_facts(request)
    prefix = command_prefix(request)
    topology = lay_out(place.hosts)
    console_ranks = parse_ranks(request.console_ranks, topology.world_size)
    target: Target = facts.target if request.target == "auto" else request.target
    ds = make_ds_config(request, target, topology.world_size, place.devices, env)
    path = str(run.ds_config) if ds.config is not None else None
    around = Surroundings(
        run_id=run.id,
        run_dir=str(run.path),
        rendezvous=place.rendezvous,
        device=place.devices.kind,
        target=target,
        ds_config=path,
        precision=ds.precision,
        cores=place.cores,
        inherited=place.env,
        on_node=place.on_node,
        max_restarts=request.max_restarts,
        slurm=place.allocation is not None,
    )
    args = _script_args(request, path)
    uses = request.wants_deepspeed or facts.reads_ds_config or args != request.args
    if uses and ds.config is not None and request.ds_config is None:
        ds = _linted(request, ds, target, topology.world_size, place, env)
    option = local_rank_option(request, facts)
    commands = {
        node_rank: Command(_on_host(prefix, host, request), args, host.workdir or cwd, option)
        for node_rank, host in enumerate(place.hosts)
    }
    for node_rank, own in place.commands.items():
        commands[node_rank] = replace(own, args=_with_ds_config(own.args, path))
    plan = with_reader(request, make_plan(topology, commands, around, ds.config), env)
    if place.remote:
        plan = replace(
            plan,
            inherit=True,
            python=prefix[0],
            files=_files(run, ds),
            preferred=place.preferred,
        )
    preload, cold = preload_of(request, facts, plan)
    operators = operators_for(request, facts, target, place.devices.kind, ds, read=uses)
    plan = replace(plan, preload=preload, operators=operators)
    return Prepared(
        plan=plan,
        place=place,
        ds=ds,
        uses_ds_config=uses,
        console_ranks=console_ranks,
        notes=tuple(note for note in (*place.notes, place.devices.note, *ds.notes, cold) if note),
        details=_details(env, place),
        asked=question(request, facts, place.devices.kind) if _looks(request) else None,
    )


def _linted(
    request: Request,
    ds: DsConfig,
    target: Target,
    world_size: int,
    place: Place,
    env: Mapping[str, str],
) -> DsConfig:
    """The config of a recipe that will be read, with what lint has to say of it."""
    from zlaunch.cli.lint_run import circumstances, lint_config  # a plain script does not pay

    around = circumstances(request, target, world_size, place.devices, env)
    notes = lint_config(ds.config or {}, f"recipe {ds.name}", around)
    return replace(ds, notes=(*ds.notes, *notes))


def _looks(request: Request) -> bool:
    """Whether there are other nodes that are to be looked at before the start."""
    many = request.many is not None and not request.many.alone
    return request.preflight and (many or request.join is not None)


def _on_host(prefix: tuple[str, ...], host: Host, request: Request) -> tuple[str, ...]:
    """The host's own interpreter, where the hostfile names one."""
    return (host.python, *prefix[1:]) if host.python and not request.no_python else prefix


def _files(run: RunDir, ds: DsConfig) -> tuple[tuple[str, str], ...]:
    """What a node needs of the run directory, where it does not share it with this machine."""
    files = [(f"{run.path}/errors/", ""), (f"{run.path}/flight/", "")]
    if ds.config is not None:
        files.append((str(run.ds_config), to_json(ds.config)))
    return tuple(files)


def _script_args(request: Request, ds_config: str | None) -> tuple[str, ...]:
    wanted = "--ds-arg" if request.ds_arg else PLACEHOLDER
    return _with_ds_config(script_args(request), ds_config, wanted)


def script_args(request: Request) -> tuple[str, ...]:
    """Return the script's arguments before it is known where the ds_config is."""
    return (*request.args, request.ds_arg, PLACEHOLDER) if request.ds_arg else request.args


def _with_ds_config(
    args: tuple[str, ...], ds_config: str | None, wanted: str = PLACEHOLDER
) -> tuple[str, ...]:
    if ds_config is not None:
        return tuple(arg.replace(PLACEHOLDER, ds_config) for arg in args)
    if any(PLACEHOLDER in arg for arg in args):
        raise InputError(
            f"{wanted} asks for a ds_config, and this run has none",
            hint="choose a recipe with DeepSpeed, or --ds-config FILE",
        )
    return args


def local_rank_option(request: Request, facts: ScriptFacts) -> str | None:
    """Return the option that carries LOCAL_RANK to the script, None where it wants none."""
    if request.local_rank_arg == "always":
        return facts.local_rank_option or "--local_rank"
    return facts.local_rank_option if request.local_rank_arg == "auto" else None


def working_directory() -> str:
    """Return where we are.

    Raises InputError where that was removed.
    """
    try:
        return str(Path.cwd())
    except OSError as error:
        raise InputError(f"the current directory is gone: {error.strerror}") from error


def _details(env: Mapping[str, str], place: Place) -> tuple[str, ...]:
    """What only -v tells."""
    details = []
    if names := replaced(env):
        details.append(f"replaced inherited {', '.join(names)}")
    if place.env and place.remote:
        details.append(f"sent to the hosts: {', '.join(sorted(place.env))}")
    return tuple(details)
