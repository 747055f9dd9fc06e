"""The place of `zlaunch multinode`: hosts from a file or a list, and how each is reached."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from zlaunch.backends.base import Backend
from zlaunch.backends.local import LocalBackend
from zlaunch.backends.openssh import OpensshBackend, SshOptions
from zlaunch.backends.remote import Entrance
from zlaunch.backends.several import SeveralBackends
from zlaunch.backends.ssh import SshBackend
from zlaunch.cli.place import Devices, Place
from zlaunch.cli.request import ManyHosts, Request
from zlaunch.cli.user_files import read_file
from zlaunch.errors import SelectionError
from zlaunch.launcher.agents import Patience
from zlaunch.spec.envfile import parse_deepspeed_env, parse_env_file
from zlaunch.spec.environment import Rendezvous
from zlaunch.spec.filters import select_hosts
from zlaunch.spec.hostfile import Host, parse_hostfile
from zlaunch.spec.hostnames import parse_hosts
from zlaunch.spec.propagation import chosen_environment, parse_env_option
from zlaunch.spec.slots import Slot
from zlaunch.system.here import which_are_here

Gather = Callable[[str], None]

_SETUP = 300.0  # seconds; loading modules from a cold file system takes a minute
_DEEPSPEED_ENV = ".deepspeed_env"


def many_hosts(
    request: Request, many: ManyHosts, env: Mapping[str, str], gather: Gather | None
) -> Place:
    """Return the place. Hosts whose GPUs have to be counted are asked, after a call of `gather`.

    Without it nobody is.

    Raises HostfileError, SelectionError, InputError, or BackendError.
    """
    patience = patience_with(many)
    hosts = _select(request, many, patience, gather)
    hosts, pools = with_pools(request, hosts, many.hostfile)
    if pools and request.count[0] is None and gather is not None:
        hosts = ask_for_idle(request, hosts, _backends(request, many, hosts), env, gather)
    on_cpu = is_on_cpu(request)
    slots = hosts[0].slots
    single = len(hosts) == 1
    sent, written = environment(many, env)
    address = request.master_addr or hosts[0].address or ("127.0.0.1" if single else "")
    return Place(
        hosts=hosts,
        devices=Devices("cpu" if on_cpu else "cuda", slots),
        backend=_backends(request, many, hosts),
        patience=patience,
        rendezvous=Rendezvous(address, request.master_port),
        env=sent,
        cores={},
        remote=True,
        preferred=tuple(name for name in sent if name not in written),
        notes=env_notes(),
        pools=pools,
    )


def patience_with(many: ManyHosts) -> Patience:
    """Return how long hosts are waited for: longer where a set-up command runs first."""
    setup = _SETUP if many.setup is not None else 0.0
    return Patience(many.connect_timeout, many.heartbeat, setup)


def with_pools(
    request: Request, hosts: tuple[Host, ...], source: str | None
) -> tuple[tuple[Host, ...], dict[int, tuple[Slot, ...]]]:
    """Return hosts with as many slots as are wanted, and those that the idle ones are among."""
    if not request.idle:
        return hosts, {}
    pools = {rank: host.slots for rank, host in enumerate(hosts)}
    count, counted_by = request.count
    return select_hosts(hosts, num_gpus=count, source=source, counted_by=counted_by), pools


def ask_for_idle(
    request: Request,
    hosts: tuple[Host, ...],
    backend: Backend,
    env: Mapping[str, str],
    gather: Gather,
) -> tuple[Host, ...]:
    """Return the hosts with as many slots as are idle by now; `gather` is called before."""
    from zlaunch.cli.leases import lease_folder
    from zlaunch.cli.look import with_idle

    assert request.many is not None
    gather(f"{len(hosts)} host{'s' if hosts[1:] else ''} to say which of their GPUs are idle")
    folder = lease_folder(request.lease_dir, env)
    return with_idle(request, hosts, backend, patience_with(request.many), folder)


def is_on_cpu(request: Request) -> bool:
    """Tell whether workers get no GPU."""
    return request.cpu is not None or request.device == "cpu"


def _select(
    request: Request, many: ManyHosts, patience: Patience, gather: Gather | None
) -> tuple[Host, ...]:
    counts = {"--num-gpus": request.num_gpus, "--nproc": request.nproc, "--cpu": request.cpu}
    counted_by, count = next(((k, v) for k, v in counts.items() if v), ("--num-gpus", None))
    count = None if request.idle else count  # of those that are idle
    default = many.uncounted or (1 if is_on_cpu(request) else None)
    hosts = named_hosts(many, count or default)
    if many.hostfile is None:
        hosts = _counted(request, many, hosts, patience, gather)
    return select_hosts(
        hosts,
        include=request.include,
        exclude=request.exclude,
        num_nodes=many.num_nodes,
        num_gpus=count,
        source=many.hostfile,
        counted_by=counted_by,
    )


def named_hosts(many: ManyHosts, default: int | None) -> tuple[Host, ...]:
    """Return the hosts of the hostfile or the list; `default` slots where no number is.

    Raises HostfileError or SelectionError.
    """
    if many.hostfile is not None:
        return parse_hostfile(_read(many.hostfile, "--hostfile"), many.hostfile)
    assert many.hosts is not None
    return parse_hosts(many.hosts, default)


def _counted(
    request: Request,
    many: ManyHosts,
    hosts: tuple[Host, ...],
    patience: Patience,
    gather: Gather | None,
) -> tuple[Host, ...]:
    """Ask the hosts that have no number behind their names for their GPUs."""
    without = tuple(host for host in hosts if not host.slots)
    if not without:
        return hosts
    if gather is None:
        raise SelectionError(
            f"--hosts {many.hosts}: how many GPUs {without[0].name} has is not said",
            hint=f"{without[0].name}:8; only a dry run, which asks nobody, has to be told",
        )
    from zlaunch.cli.look import with_all_gpus

    gather(f"{len(without)} host{'s' if len(without) > 1 else ''} to say how many GPUs they have")
    found = with_all_gpus(request, without, _backends(request, many, without), patience)
    by_name = {host.name: host for host in found}
    return tuple(by_name.get(host.name, host) for host in hosts)


def _backends(request: Request, many: ManyHosts, hosts: tuple[Host, ...]) -> Backend:
    options = SshOptions(many.ssh_host_keys, many.connect_timeout)
    by_rank = dict(enumerate(hosts))
    entrances = {rank: entrance(request, many, host) for rank, host in by_rank.items()}
    over_ssh: Backend
    if many.ssh == "openssh":
        over_ssh = OpensshBackend(by_rank, entrances, options)
    else:
        over_ssh = SshBackend(by_rank, entrances, options, Path.home())
    here = [False] * len(hosts)
    if not many.force_ssh:
        here = which_are_here(hosts, Path.home(), many.connect_timeout)
    return SeveralBackends(
        {rank: _here(many, entrances[rank]) if here[rank] else over_ssh for rank in by_rank}
    )


def _here(many: ManyHosts, entrance: Entrance) -> LocalBackend:
    return LocalBackend(entrance if many.setup is not None else None)


def entrance(request: Request, many: ManyHosts, host: Host) -> Entrance:
    """The interpreter that was asked for, or ours by its path."""
    asked = host.python or request.python
    interpreters = (asked or sys.executable,)
    return Entrance(interpreters, asked is not None, many.setup, host.workdir or str(Path.cwd()))


def environment(many: ManyHosts, env: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """What is sent, and the names of which the user wrote the value or the name."""
    settings: list[tuple[str, str]] = []
    for folder in (Path.home(), Path.cwd()):  # DeepSpeed's order: the later one wins
        file = folder / _DEEPSPEED_ENV
        if file.is_file():
            settings += parse_deepspeed_env(_read(str(file), _DEEPSPEED_ENV), str(file))
    for name in many.env_files:
        settings += parse_env_file(_read(name, "--env-file"), name)
    names: list[str] = []
    for text in many.env:
        variable, value = parse_env_option(text)
        if value is None:
            names.append(variable)
        else:
            settings.append((variable, value))
    written = frozenset((*names, *(name for name, _ in settings)))
    return chosen_environment(env, names=names, settings=settings), written


def env_notes() -> tuple[str, ...]:
    """A file that nobody named on the command line is worth a word."""
    found = [str(folder / _DEEPSPEED_ENV) for folder in (Path.home(), Path.cwd())]
    read = [path for path in dict.fromkeys(found) if Path(path).is_file()]
    return tuple(f"variables of {path} are sent to the hosts" for path in read)


def _read(path: str, option: str) -> str:
    """Read a file in which any bytes may stand for values."""
    what = option if path.endswith(option) else f"{option} {path}"
    return read_file(path, what, encoding="utf-8", errors="surrogateescape")
