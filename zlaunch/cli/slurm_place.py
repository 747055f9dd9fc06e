"""The place of a run in an allocation of Slurm: its nodes, reached by steps of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from zlaunch.backends.base import Backend
from zlaunch.backends.slurm import SlurmBackend
from zlaunch.cli.many_hosts import (
    Gather,
    ask_for_idle,
    entrance,
    env_notes,
    environment,
    is_on_cpu,
    named_hosts,
    patience_with,
    with_pools,
)
from zlaunch.cli.place import Devices, Place, idle_nodes
from zlaunch.cli.request import ManyHosts, Request
from zlaunch.errors import InputError, SelectionError
from zlaunch.spec.allocation import Allocation, find_allocation, within
from zlaunch.spec.environment import CONSULTED, Rendezvous
from zlaunch.spec.filters import select_hosts
from zlaunch.spec.hostfile import Host
from zlaunch.spec.slurm_variables import of_job
from zlaunch.system.slurm_job import granted_gpus


def slurm_place(
    request: Request,
    many: ManyHosts,
    allocation: Allocation,
    env: Mapping[str, str],
    gather: Gather | None,
) -> Place:
    """Return the place. Nodes are asked which GPUs Slurm gave them, after a call of `gather`.

    Without it nobody is.

    Raises HostfileError, SelectionError, InputError, or BackendError.
    """
    gpus: dict[str, str] = {}
    if gather is not None:
        _check_srun(allocation, env, "local" if many.alone else "ssh")
    if gather is not None and not is_on_cpu(request):
        gather(
            f"{len(allocation.nodes)} nodes of {allocation.name} to say which GPUs they were given"
        )
        gpus = granted_gpus(allocation.job, many.connect_timeout)

    def backend(hosts: Sequence[Host]) -> Backend:
        entrances = {rank: entrance(request, many, host) for rank, host in enumerate(hosts)}
        return SlurmBackend(allocation.job, entrances, env, gpus)

    hosts = _select(request, many, allocation, backend if gather is not None else None)
    hosts, pools = with_pools(request, hosts, many.hostfile or allocation.name)
    if pools and request.count[0] is None and gather is not None:
        hosts = ask_for_idle(request, hosts, backend(hosts), env, gather)
    single = len(hosts) == 1
    address = request.master_addr or hosts[0].address or ("127.0.0.1" if single else "")
    sent, written = environment(many, env)
    consulted = {name: env[name] for name in CONSULTED if name in env}
    consulted.pop("CUDA_VISIBLE_DEVICES", None)  # that of this machine
    wrote = {name: value for name, value in sent.items() if name in written}
    return Place(
        hosts=hosts,
        devices=Devices("cpu" if is_on_cpu(request) else "cuda", hosts[0].slots),
        backend=backend(hosts),
        patience=patience_with(many),
        rendezvous=Rendezvous(address, request.master_port),
        # The rest of our environment goes there with the step.
        env={**of_job(env), **wrote},
        cores={},
        remote=True,
        on_node={rank: {**consulted, **wrote} for rank in range(len(hosts))},
        notes=(*env_notes(), *(idle_nodes(find_allocation(env)) if many.alone else ())),
        pools=pools,
        allocation=allocation,
    )


def _select(
    request: Request,
    many: ManyHosts,
    allocation: Allocation,
    backend: Callable[[Sequence[Host]], Backend] | None,
) -> tuple[Host, ...]:
    """Choose among the nodes; without a `backend` none of them is asked."""
    if request.gpus is not None:
        raise InputError(
            f"--gpus {request.gpus} names GPUs of this machine, and the run is on another one",
            hint=f"--include {allocation.nodes[0]}:{request.gpus}",
        )
    counts = {"--num-gpus": request.num_gpus, "--nproc": request.nproc, "--cpu": request.cpu}
    counted_by, count = next(((k, v) for k, v in counts.items() if v), ("--num-gpus", None))
    count = None if request.idle else count  # of those that are idle
    hosts = _named(many, allocation)
    if is_on_cpu(request):
        tasks = dict(zip(allocation.nodes, allocation.tasks, strict=True))
        hosts = tuple(
            host if host.slots else replace(host, slots=tuple(range(count or tasks[host.name])))
            for host in hosts
        )
    elif many.uncounted is not None:
        hosts = tuple(replace(h, slots=h.slots or tuple(range(many.uncounted))) for h in hosts)
    elif backend is not None:
        hosts = _with_granted(request, many, hosts, backend(hosts))
    else:
        hosts = tuple(_on_trust(host, count) for host in hosts)
    return select_hosts(
        hosts,
        include=request.include,
        exclude=request.exclude,
        num_nodes=many.num_nodes,
        num_gpus=count,
        source=many.hostfile or allocation.name,
        counted_by=counted_by,
    )


def _named(many: ManyHosts, allocation: Allocation) -> tuple[Host, ...]:
    """All nodes of the allocation, or those of them that the user named."""
    if many.hostfile is None and many.hosts is None:
        return tuple(Host(name, ()) for name in allocation.nodes)
    return within(allocation, named_hosts(many, None))


def _check_srun(allocation: Allocation, env: Mapping[str, str], past: str) -> None:
    """Raise InputError where there is no srun: nothing else could say so before each node does."""
    if shutil.which("srun", path=env.get("PATH")) is None:
        raise InputError(
            f"srun is not in PATH, and by it alone zlaunch gets to the nodes of {allocation.name}",
            hint=f"add the directory of Slurm's programs; --backend {past} goes past Slurm",
        )


def _on_trust(host: Host, count: int | None) -> Host:
    if host.slots or count:
        return host if host.slots else replace(host, slots=tuple(range(count or 0)))
    raise SelectionError(
        f"how many GPUs Slurm gave {host.name} is not said",
        hint="--num-gpus N; only a dry run, which asks nobody, has to be told",
    )


def _with_granted(
    request: Request, many: ManyHosts, hosts: Sequence[Host], backend: Backend
) -> tuple[Host, ...]:
    """Ask each node in a step of its own; a number behind a name takes the first of them."""
    from zlaunch.cli.look import with_all_gpus

    found = with_all_gpus(request, hosts, backend, patience_with(many), granted=True)
    return tuple(_first(host, given) for host, given in zip(hosts, found, strict=True))


def _first(asked: Host, given: Host) -> Host:
    count = len(asked.slots)
    if count > len(given.slots):
        raise SelectionError(
            f"{asked.name}: {count} slots are asked for, and Slurm gave {len(given.slots)} GPUs",
            hint=f"ask for at most {len(given.slots)}",
        )
    return replace(given, slots=given.slots[: count or None])
