"""A look at the hosts of a place, without a script and without starting anything."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zlaunch.backends.base import Backend
from zlaunch.cli.place import Devices, Place
from zlaunch.cli.question import nvml_source
from zlaunch.cli.request import Request
from zlaunch.errors import BackendError, SelectionError
from zlaunch.launcher.agents import Patience
from zlaunch.launcher.examination import Examination, Examined
from zlaunch.launcher.preflight import Asked
from zlaunch.spec.device import Device
from zlaunch.spec.devices import visible_slots
from zlaunch.spec.environment import Rendezvous, Surroundings
from zlaunch.spec.facts import Facts, Question
from zlaunch.spec.hostfile import Host
from zlaunch.spec.leases import idle_first
from zlaunch.spec.plan import Command, Plan, make_plan
from zlaunch.spec.slots import Slot
from zlaunch.spec.topology import lay_out
from zlaunch.system.loop import Loop


def look(request: Request, place: Place, asked: Asked) -> Examined:
    """Reach every host of the place, ask, and let go of it."""
    loop = Loop()
    try:
        return Examination(_plan(request, place), place.backend, loop, place.patience, asked).run()
    finally:
        loop.close()


def _plan(request: Request, place: Place) -> Plan:
    """A plan whose workers do nothing: they say where and with what they would run."""
    python = request.python or sys.executable
    cwd = str(Path.cwd())
    commands = {
        rank: Command((host.python or python, "-c", "pass"), (), host.workdir or cwd)
        for rank, host in enumerate(place.hosts)
    }
    around = Surroundings(
        run_id="look",
        run_dir="",
        # This machine's port is held by us for the workers; the agent has one of its own to try.
        rendezvous=replace(place.rendezvous, port=place.rendezvous.port if place.remote else 0),
        device=place.devices.kind,
        target="plain",
        ds_config=None,
        precision=None,
        cores=place.cores,
        inherited=place.env,
    )
    plan = make_plan(lay_out(place.hosts), commands, around, None)
    return replace(plan, inherit=place.remote, python=python, preferred=place.preferred)


def _granted(host: Host, facts: Facts) -> tuple[Slot, ...]:
    """The devices that a scheduler has given this host, as it spells them."""
    devices = None if facts.gpus is None else _devices(facts)
    try:
        slots = visible_slots(facts.visible, devices)
    except SelectionError as error:
        raise SelectionError(f"{host.name}: {error.message}", hint=error.hint) from error
    if not slots:
        raise SelectionError(
            f"{host.name} was given no GPU (CUDA_VISIBLE_DEVICES={facts.visible})",
            hint="--device cpu trains without; sbatch --gpus-per-node asks for them",
        )
    return slots


def with_all_gpus(
    request: Request,
    hosts: Sequence[Host],
    backend: Backend,
    patience: Patience,
    *,
    granted: bool = False,
) -> tuple[Host, ...]:
    """Return the hosts with as many slots as each has GPUs.

    Those `granted` are what CUDA_VISIBLE_DEVICES names there, where a scheduler has set it.

    Raises BackendError for hosts that cannot be reached, SelectionError for those without one.
    """
    question = Question(python=False, gpus=True, nvml=nvml_source())
    facts = _facts(request, hosts, backend, patience, question)
    counted = []
    for node_rank, host in enumerate(hosts):
        gpus = facts[node_rank].gpus if node_rank in facts else None
        if granted and node_rank in facts and facts[node_rank].visible is not None:
            counted.append(replace(host, slots=_granted(host, facts[node_rank])))
            continue
        if not gpus:
            trouble = "; ".join(facts[node_rank].trouble) if node_rank in facts else ""
            raise SelectionError(
                f"{host.name} has no GPU that could be found{f' ({trouble})' if trouble else ''}",
                hint=f"--device cpu trains without; {host.name}:4 takes four on trust",
            )
        counted.append(replace(host, slots=tuple(gpu.index for gpu in gpus)))
    return tuple(counted)


def with_idle(
    request: Request,
    hosts: Sequence[Host],
    backend: Backend,
    patience: Patience,
    folder: str,
) -> tuple[Host, ...]:
    """Return the hosts with those of their slots that are idle by now, and one at least of each.

    `folder` is the directory of leases. Where it cannot be told, who takes the leases says so.

    Raises BackendError for hosts that cannot be reached.
    """
    question = Question(python=False, gpus=True, nvml=nvml_source(), leases=folder)
    facts = _facts(request, hosts, backend, patience, question)
    chosen = []
    for node_rank, host in enumerate(hosts):
        found = facts.get(node_rank)
        if found is not None and found.gpus and found.taken is not None:
            idle = idle_first(host.slots, _devices(found), found.taken)
            chosen.append(replace(host, slots=idle))
        else:
            chosen.append(host)
    return tuple(chosen)


def _devices(facts: Facts) -> tuple[Device, ...]:
    return tuple(Device(gpu.index, gpu.uuid, mig=gpu.mig) for gpu in facts.gpus or ())


def _facts(
    request: Request,
    hosts: Sequence[Host],
    backend: Backend,
    patience: Patience,
    question: Question,
) -> Mapping[int, Facts]:
    """Ask all hosts; raises BackendError where one of them cannot be reached."""
    place = Place(
        hosts=tuple(replace(host, slots=(0,)) for host in hosts),
        devices=Devices("cuda", (0,)),
        backend=backend,
        patience=patience,
        rendezvous=Rendezvous("127.0.0.1", 0),
        env={},
        cores={},
        remote=True,
    )
    found = look(request, place, Asked(question))
    if found.unreachable:
        raise BackendError("\n".join(f"{one.host}: {one.text}" for one in found.unreachable))
    return found.fitness.facts if found.fitness else {}
