"""Where a run takes place: this machine, or many hosts, and how each is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zlaunch.backends.base import Backend
from zlaunch.backends.local import LocalBackend
from zlaunch.cli.request import Request
from zlaunch.launcher.agents import Patience
from zlaunch.spec.devices import choose_slots, visible_slots
from zlaunch.spec.environment import DeviceKind, Rendezvous
from zlaunch.spec.hostfile import Host
from zlaunch.spec.plan import Command
from zlaunch.spec.slots import Slot
from zlaunch.system.cores import usable_cores
from zlaunch.system.gpus import discover

THIS_MACHINE = "localhost"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Devices:
    """Where the workers of this machine run; `note` is for the user."""

    kind: DeviceKind
    slots: tuple[Slot, ...]
    bf16: bool = True
    note: str | None = None


@dataclass(frozen=True)
class Place:
    """The hosts of a run in rank order.

    `env` is what their workers inherit from the launcher; `cores` is known of this machine
    only. A `remote` place is not this machine alone. `preferred` names those of `env` that give
    way to what a set-up command makes of them on a host. Where nodes were started by themselves,
    `commands` and `on_node` hold their own command lines and what the plan has to know of
    their own environments, by node rank.
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


def this_machine(request: Request, env: Mapping[str, str], port: int) -> Place:
    """Return the place of `zlaunch run`; the rendezvous port is reserved already."""
    devices = choose_devices(request, env)
    return Place(
        hosts=(Host(name=THIS_MACHINE, slots=devices.slots, address=LOOPBACK),),
        devices=devices,
        backend=LocalBackend(),
        patience=Patience(),
        rendezvous=Rendezvous(request.master_addr or LOOPBACK, port),
        env=env,
        cores={0: usable_cores()},
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
