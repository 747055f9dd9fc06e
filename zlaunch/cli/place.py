"""Where a run takes place: this machine, or many hosts, and how each is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import partial

from zlaunch.backends.base import Backend
from zlaunch.backends.local import LocalBackend
from zlaunch.cli.request import Request
from zlaunch.errors import BackendError
from zlaunch.frozen import frozen
from zlaunch.launcher.agents import Patience
from zlaunch.spec.allocation import Allocation, find_allocation, is_one_of_many
from zlaunch.spec.device import Device
from zlaunch.spec.devices import choose_slots, visible_slots
from zlaunch.spec.environment import DeviceKind, Rendezvous
from zlaunch.spec.hostfile import Host
from zlaunch.spec.leases import idle_first
from zlaunch.spec.plan import Command
from zlaunch.spec.slots import Slot
from zlaunch.system.cores import usable_cores
from zlaunch.system.gpus import discover

DRIVER_PATIENCE = 30.0  # seconds
THIS_MACHINE = "localhost"
LOOPBACK = "127.0.0.1"


@frozen
class Devices:
    """Where the workers of this machine run; `note` is for the user.

    With --idle the slots are as many of the `pool`, and may be others of it in the end. `known` are
    all devices of the machine.
    """

    kind: DeviceKind
    slots: tuple[Slot, ...]
    bf16: bool = True
    note: str | None = None
    pool: tuple[Slot, ...] = ()
    known: tuple[Device, ...] = ()


@frozen
class Place:
    """The hosts of a run in rank order.

    `env` is what their workers inherit from the launcher; `cores` is known of this machine
    only. A `remote` place is not this machine alone. `preferred` names those of `env` that give
    way to what a set-up command makes of them on a host. Where nodes were started by themselves,
    `commands` and `on_node` hold their own command lines and what the plan has to know of
    their own environments, by node rank. `pools` are the slots that each host's are to be chosen
    from, where those are more. `allocation` is the grant of Slurm that it is in.
    """

    hosts: tuple[Host, ...]
    devices: Devices
    backend: Backend
    patience: Patience
    rendezvous: Rendezvous
    env: Mapping[str, str]
    cores: Mapping[int, int]
    remote: bool = False
    preferred: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    commands: Mapping[int, Command] = field(default_factory=dict)
    on_node: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    pools: Mapping[int, tuple[Slot, ...]] = field(default_factory=dict)
    allocation: Allocation | None = None


def this_machine(request: Request, env: Mapping[str, str], port: int) -> Place:
    """Return the place of `zlaunch run`; the rendezvous port is reserved already."""
    devices = choose_devices(request, env)
    # One of many tasks is a run of its own among others, such as a sweep's.
    allocation = None if is_one_of_many(env) else find_allocation(env)
    return Place(
        hosts=(Host(name=THIS_MACHINE, slots=devices.slots, address=LOOPBACK),),
        devices=devices,
        backend=LocalBackend(),
        patience=Patience(),
        rendezvous=Rendezvous(request.master_addr or LOOPBACK, port),
        env=env,
        cores={0: usable_cores()},
        pools={0: devices.pool} if devices.pool else {},
        notes=idle_nodes(allocation),
        allocation=allocation,
    )


def idle_nodes(allocation: Allocation | None) -> tuple[str, ...]:
    """Say that `run`, which is one node's, leaves others of a job idle."""
    idle = len(allocation.nodes) - 1 if allocation is not None else 0
    if allocation is None or idle < 1:
        return ()
    what = "1 node is" if idle == 1 else f"{idle} nodes are"
    return (f"{what} left idle in Slurm's job {allocation.job}: zlaunch multinode uses them all",)


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
    choose = partial(choose_slots, devices=devices, counted_by=request.count[1], env=visible_env)
    pool = choose(
        visible,
        count=None if request.idle else count,
        gpus=request.gpus,
        include=request.include,
        exclude=request.exclude,
    )
    note = None
    if devices is None:
        note = "neither NVML nor nvidia-smi is here, so the devices are taken on trust"
    if request.idle and not count:
        count = _count_idle(request, env, pool, devices or ())
    slots = choose(pool, count=count) if request.idle and count else pool
    used = [device for device in devices or () if {device.index, device.uuid} & set(pool)]
    bf16 = all(device.bf16 for device in used or devices or ())
    return Devices("cuda", slots, bf16, note, pool if request.idle else (), devices or ())


def _count_idle(
    request: Request, env: Mapping[str, str], pool: tuple[Slot, ...], devices: tuple[Device, ...]
) -> int:
    """How many are idle by now, and one at least; others may come first and take them."""
    from zlaunch.cli.leases import lease_folder  # few ask for it
    from zlaunch.system.gpu_free import taken_now

    try:
        taken = taken_now(devices, lease_folder(request.lease_dir, env), timeout=DRIVER_PATIENCE)
    except BackendError:
        taken = None
    if taken is None:  # who takes the leases says so
        return len(pool)
    return len(idle_first(pool, devices, taken))
