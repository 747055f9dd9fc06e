"""The place of `zlaunch multinode`: hosts from a file or a list, and how each is reached."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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
from zlaunch.system.here import which_are_here

_SETUP = 300.0  # seconds; loading modules from a cold file system takes a minute
_DEEPSPEED_ENV = ".deepspeed_env"


def many_hosts(request: Request, many: ManyHosts, env: Mapping[str, str]) -> Place:
    """Return the place; nothing is connected yet.

    Raises HostfileError, SelectionError or InputError.
    """
    hosts = _select(request, many)
    on_cpu = request.cpu is not None or request.device == "cpu"
    slots = hosts[0].slots
    single = len(hosts) == 1
    sent, written = _environment(many, env)
    address = request.master_addr or hosts[0].address or ("127.0.0.1" if single else "")
    return Place(
        hosts=hosts,
        devices=Devices("cpu" if on_cpu else "cuda", slots),
        backend=_backends(request, many, hosts),
        patience=Patience(many.connect_timeout + _setup_time(many), many.heartbeat),
        rendezvous=Rendezvous(address, request.master_port),
        env=sent,
        cores={},
        remote=True,
        preferred=tuple(name for name in sent if name not in written),
    )


def _setup_time(many: ManyHosts) -> float:
    """Seconds for the set-up command; reaching the host is bounded by SSH itself."""
    return _SETUP if many.setup is not None else 0.0


def _select(request: Request, many: ManyHosts) -> tuple[Host, ...]:
    if many.hostfile is not None:
        hosts = parse_hostfile(_read(many.hostfile, "--hostfile"), many.hostfile)
    else:
        assert many.hosts is not None
        hosts = parse_hosts(many.hosts, request.cpu or request.nproc or request.num_gpus)
    chosen = select_hosts(
        hosts,
        include=request.include,
        exclude=request.exclude,
        num_nodes=many.num_nodes,
        num_gpus=request.num_gpus if many.hostfile is not None else None,
        source=many.hostfile,
    )
    without = [host.name for host in chosen if not host.slots]
    if without:
        raise SelectionError(
            f"--hosts {many.hosts}: how many workers {without[0]} gets is not said",
            hint=f"{without[0]}:4, or --nproc 4 for all",
        )
    return chosen


def _backends(request: Request, many: ManyHosts, hosts: tuple[Host, ...]) -> Backend:
    options = SshOptions(many.ssh_host_keys, many.connect_timeout)
    by_rank = dict(enumerate(hosts))
    entrances = {rank: _entrance(request, many, host) for rank, host in by_rank.items()}
    over_ssh: Backend
    if many.ssh == "openssh":
        over_ssh = OpensshBackend(by_rank, entrances, options)
    else:
        over_ssh = SshBackend(by_rank, entrances, options, Path.home())
    here = [False] * len(hosts) if many.force_ssh else which_are_here(hosts, Path.home())
    return SeveralBackends(
        {rank: _here(many, entrances[rank]) if here[rank] else over_ssh for rank in by_rank}
    )


def _here(many: ManyHosts, entrance: Entrance) -> LocalBackend:
    return LocalBackend(entrance if many.setup is not None else None)


def _entrance(request: Request, many: ManyHosts, host: Host) -> Entrance:
    """The interpreter that was asked for, or ours by its path."""
    asked = host.python or request.python
    interpreters = (asked or sys.executable,)
    return Entrance(interpreters, asked is not None, many.setup, host.workdir or str(Path.cwd()))


def _environment(many: ManyHosts, env: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
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


def _read(path: str, option: str) -> str:
    """Read a file in which any bytes may stand for values."""
    what = option if path.endswith(option) else f"{option} {path}"
    return read_file(path, what, encoding="utf-8", errors="surrogateescape")
