"""From what the user asked for to a plan: looks at this machine, starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zlaunch.cli.ds_config import DsConfig, make_ds_config
from zlaunch.cli.request import PLACEHOLDER, Request
from zlaunch.cli.target import command_prefix, read_facts
from zlaunch.errors import InputError
from zlaunch.spec.devices import choose_slots, visible_slots
from zlaunch.spec.environment import (
    DeviceKind,
    Rendezvous,
    Surroundings,
    Target,
    replaced,
)
from zlaunch.spec.hostfile import Host
from zlaunch.spec.plan import Command, Plan, make_plan
from zlaunch.spec.ranks import parse_ranks
from zlaunch.spec.script import ScriptFacts
from zlaunch.spec.slots import Slot
from zlaunch.spec.topology import lay_out
from zlaunch.system.cores import usable_cores
from zlaunch.system.gpus import discover
from zlaunch.system.ports import ReservedPort
from zlaunch.system.rundir import RunDir

_THIS_MACHINE = "localhost"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Devices:
    """Where the workers of this machine run; `note` is for the user."""

    kind: DeviceKind
    slots: tuple[Slot, ...]
    bf16: bool = True
    note: str | None = None


@dataclass(frozen=True)
class Prepared:
    """Everything that is decided before the first process.

    `uses_ds_config` is false where neither the user nor the script speaks of the ds_config,
    which then lies there unread.
    """

    plan: Plan
    devices: Devices
    ds: DsConfig
    uses_ds_config: bool
    console_ranks: frozenset[int]
    notes: tuple[str, ...]
    details: tuple[str, ...]


def prepare(request: Request, env: Mapping[str, str], run: RunDir, port: ReservedPort) -> Prepared:
    """Return the plan of a run on this machine.

    Raises InputError (or another ZlaunchError) for what cannot be done as asked.
    """
    cwd = _working_directory()
    facts = read_facts(request)
    prefix = command_prefix(request)
    devices = choose_devices(request, env)
    topology = lay_out([Host(name=_THIS_MACHINE, slots=devices.slots, address=_LOOPBACK)])
    console_ranks = parse_ranks(request.console_ranks, topology.world_size)
    target: Target = facts.target if request.target == "auto" else request.target
    ds = make_ds_config(request, target, topology.world_size, devices)
    path = str(run.ds_config) if ds.config is not None else None
    around = Surroundings(
        run_id=run.id,
        run_dir=str(run.path),
        rendezvous=Rendezvous(request.master_addr or _LOOPBACK, port.port),
        device=devices.kind,
        target=target,
        ds_config=path,
        precision=ds.precision,
        cores={0: usable_cores()},
        inherited=env,
    )
    args = _script_args(request, path)
    asked_in_args = args != request.args
    command = Command(
        prefix=prefix,
        args=args,
        cwd=cwd,
        local_rank_option=_local_rank_option(request, facts),
    )
    return Prepared(
        plan=make_plan(topology, command, around, ds.config),
        devices=devices,
        ds=ds,
        uses_ds_config=request.wants_deepspeed or facts.reads_ds_config or asked_in_args,
        console_ranks=console_ranks,
        notes=tuple(note for note in (devices.note, *ds.notes) if note),
        details=_details(env),
    )


def choose_devices(request: Request, env: Mapping[str, str]) -> Devices:
    """Return the devices of this machine that the run uses."""
    count = request.num_gpus or request.nproc or request.cpu
    if request.cpu is not None or request.device == "cpu":
        return Devices("cpu", tuple(range(count or 1)))
    visible_env = env.get("CUDA_VISIBLE_DEVICES")
    devices = discover()
    if devices is None and visible_env is None:
        devices = ()  # no driver and nobody who says that there are devices all the same
    visible = visible_slots(visible_env, devices)
    slots = choose_slots(
        visible,
        counted_by="--nproc" if request.nproc else "--num-gpus",
        devices=devices,
        count=count,
        gpus=request.gpus,
        include=request.include,
        exclude=request.exclude,
        env=visible_env,
    )
    note = None
    if devices is None:
        note = "neither NVML nor nvidia-smi is here, so the devices are taken on trust"
    used = [device for device in devices or () if {device.index, device.uuid} & set(slots)]
    return Devices("cuda", slots, all(d.bf16 for d in used or devices or ()), note)


def _script_args(request: Request, ds_config: str | None) -> tuple[str, ...]:
    wanted = "--ds-arg" if request.ds_arg else PLACEHOLDER
    args = request.args
    if ds_config is None:
        if request.ds_arg or any(PLACEHOLDER in arg for arg in args):
            raise InputError(
                f"{wanted} asks for a ds_config, and this run has none",
                hint="choose a recipe with DeepSpeed, or --ds-config FILE",
            )
        return args
    args = tuple(arg.replace(PLACEHOLDER, ds_config) for arg in args)
    return (*args, request.ds_arg, ds_config) if request.ds_arg else args


def _local_rank_option(request: Request, facts: ScriptFacts) -> str | None:
    if request.local_rank_arg == "always":
        return facts.local_rank_option or "--local_rank"
    return facts.local_rank_option if request.local_rank_arg == "auto" else None


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise InputError(f"the current directory is gone: {error.strerror}") from error


def _details(env: Mapping[str, str]) -> tuple[str, ...]:
    """What only -v tells."""
    names = replaced(env)
    return (f"replaced inherited {', '.join(names)}",) if names else ()
