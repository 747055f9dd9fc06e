"""The place of `zlaunch join`: what a node says of itself, and node 0's view of all."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from zlaunch.backends.base import Backend
from zlaunch.backends.join import JoinBackend
from zlaunch.backends.lobby import Caller, Lobby
from zlaunch.backends.local import LocalBackend
from zlaunch.backends.several import SeveralBackends
from zlaunch.cli.place import LOOPBACK, Devices, Place, choose_devices
from zlaunch.cli.prepare import local_rank_option, script_args, working_directory
from zlaunch.cli.request import Join, Request
from zlaunch.cli.target import command_prefix, read_facts
from zlaunch.cli.token_file import read_token
from zlaunch.errors import ZlaunchError
from zlaunch.launcher.agents import Patience
from zlaunch.run.handshake import Hello
from zlaunch.spec.environment import CONSULTED, Rendezvous
from zlaunch.spec.hostfile import Host
from zlaunch.spec.plan import Command
from zlaunch.system.busy_port import listen, reserve
from zlaunch.system.routes import is_this_machine

_CONNECT = 15.0  # seconds for an agent that has been told to begin


def say(text: str, *, unless: bool = False) -> None:
    """Say something before there is a console, or on a node that has none."""
    if not unless:
        print(f"zlaunch: {text}", file=sys.stderr, flush=True)  # noqa: T201


def own_hello(request: Request, join: Join, env: Mapping[str, str], *, notes: bool = True) -> Hello:
    """Return what this node says of itself.

    Raises InputError for what cannot be done here as asked.
    """
    facts = read_facts(request)
    devices = choose_devices(request, env)
    if devices.note is not None and notes:
        say(devices.note)
    return Hello(
        node_rank=join.member.node_rank,
        nnodes=join.member.nnodes,
        host="".join(c if c.isprintable() else "?" for c in socket.gethostname()),
        slots=devices.slots,
        device=devices.kind,
        bf16=devices.bf16,
        prefix=command_prefix(request),
        args=script_args(request),
        local_rank_option=local_rank_option(request, facts),
        cwd=working_directory(),
        env={name: env[name] for name in CONSULTED if name in env},
        pool=devices.pool,
    )


def supposed_place(request: Request, join: Join, env: Mapping[str, str]) -> Place:
    """Return the place as it would be if all nodes were like this one; nobody is asked."""
    mine = own_hello(request, join, env, notes=False)
    hosts = [
        Host(mine.host if rank == mine.node_rank else f"(node {rank})", mine.slots)
        for rank in range(mine.nnodes)
    ]
    place = _place(request, join, [mine] * mine.nnodes, hosts, "", LocalBackend())
    return replace(place, env=env)  # for the secrets in it, which are not shown in arguments


@contextmanager
def joined_place(
    request: Request, join: Join, env: Mapping[str, str], gather: Callable[[str], None]
) -> Iterator[Place]:
    """Wait for the other nodes, as node 0, and give the place; `gather` is told which ones miss.

    Raises InputError, or BackendError where nodes are missing. Whatever goes wrong, those that
    have joined are told.
    """
    mine = own_hello(request, join, env)
    if mine.nnodes == 1:
        yield _place(request, join, [mine], [Host(mine.host, mine.slots)], LOOPBACK, LocalBackend())
        return
    token, note = read_token(join.token_file)
    if note is not None:
        say(note, unless=request.quiet)
    port = reserve(request.master_port) if request.master_port else None
    lobby = _open_lobby(request, join, mine, token, gather)
    try:
        lobby.gather(join.timeout)
        yield _place_of(request, join, mine, lobby.joined)
    except BaseException as error:
        lobby.dismiss(*_parting(error))
        raise
    finally:
        lobby.close()
        if port is not None:
            port.release()


def _open_lobby(
    request: Request, join: Join, mine: Hello, token: bytes, gather: Callable[[str], None]
) -> Lobby:
    member = join.member
    way_out = "choose another port in --rendezvous, the same on every node"
    listener = listen(member.port, way_out)
    if not is_this_machine(member.host):
        say(f"{member.host} is no address of this machine, node 0; others have to get here by it")
    tell = partial(say, unless=not request.verbose)
    return Lobby(listener, token, mine, join.heartbeat, say, tell, gather)


def _parting(error: BaseException) -> tuple[str, int]:
    """What the others are told, and the exit code for them."""
    if isinstance(error, ZlaunchError):
        return f"node 0 gave up: {error.message}", error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "node 0 was interrupted", 130
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return "node 0 was stopped", error.code
    return "node 0 failed", 125


def _place_of(request: Request, join: Join, mine: Hello, joined: Mapping[int, Caller]) -> Place:
    ranks = range(1, mine.nnodes)
    hellos = [mine, *(joined[rank].hello for rank in ranks)]
    names = _distinct([hello.host for hello in hellos])
    here = [joined[rank].here for rank in ranks]
    # One that came over the loopback says nothing to those on other machines.
    address = next((a for a in here if not _is_loopback(a)), here[0])
    addresses = [address, *(joined[rank].address for rank in ranks)]
    hosts = [
        Host(name, hello.slots, address=at)
        for name, hello, at in zip(names, hellos, addresses, strict=True)
    ]
    joiners = JoinBackend(joined)
    backend = SeveralBackends({0: LocalBackend(), **dict.fromkeys(ranks, joiners)})
    return _place(request, join, hellos, hosts, address, backend)


def _place(
    request: Request,
    join: Join,
    hellos: Sequence[Hello],
    hosts: Sequence[Host],
    address: str,
    backend: Backend,
) -> Place:
    mine = hellos[0]
    return Place(
        hosts=tuple(hosts),
        devices=Devices(mine.device, mine.slots, all(hello.bf16 for hello in hellos)),
        backend=backend,
        patience=Patience(_CONNECT, join.heartbeat),
        rendezvous=Rendezvous(request.master_addr or address, request.master_port),
        env={},
        cores={},
        remote=True,
        commands={rank: _command(hello) for rank, hello in enumerate(hellos)},
        on_node={rank: hello.env for rank, hello in enumerate(hellos)},
        pools={rank: hello.pool for rank, hello in enumerate(hellos) if hello.pool},
    )


def _command(hello: Hello) -> Command:
    return Command(hello.prefix, hello.args, hello.cwd, hello.local_rank_option)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names by which the nodes can be told apart: containers may all have the same."""
    return [f"{n}#{rank}" if names.count(n) > 1 else n for rank, n in enumerate(names)]


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
