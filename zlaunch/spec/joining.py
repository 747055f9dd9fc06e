"""Who a node is among those that join a run: its rank, how many there are, where node 0 listens.

An option wins over the environment, and there, in this order: torchrun's PET_*, Slurm, a
Kubernetes Job's index, and the names that torch has for ranks, where they are meant for nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from zlaunch.errors import InputError, SelectionError
from zlaunch.frozen import frozen
from zlaunch.spec.hostnames import NAME, expand, is_ipv6

DEFAULT_PORT = 29400  # torchrun's, for the address where nodes meet
MAX_NODES = 65536  # more is a slip of the hand

_NUMBER = re.compile(r"[0-9]{1,9}")
_COMMA = re.compile(r",(?![^\[\]]*\])")  # one that is not inside brackets
_NODELISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
_OF_WORKERS = ("LOCAL_RANK", "LOCAL_WORLD_SIZE")  # where one is set, RANK is not a node's


@frozen
class Membership:
    """One node's place; `host` is empty where it is alone. `told_by` names who said each."""

    node_rank: int
    nnodes: int
    host: str
    port: int
    told_by: tuple[str, ...] = ()

    @property
    def endpoint(self) -> str:
        """Host and port as they are typed."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class _Said:
    """A value, and the option or variable that holds it."""

    by: str
    value: str

    def error(self, problem: str, hint: str) -> InputError:
        return InputError(f"{self.by} {self.value}: {problem}", hint=hint)

    def number(self, low: int, high: int, what: str) -> int:
        if not _NUMBER.fullmatch(self.value) or not low <= int(self.value) <= high:
            raise self.error(f"{what} is a number from {low} to {high}", f"set it, or {_OVER}")
        return int(self.value)


_OVER = "give --nnodes N, --node-rank R and --rendezvous HOST:PORT; options win over variables"


def find_membership(
    env: Mapping[str, str],
    *,
    nnodes: int | None = None,
    node_rank: int | None = None,
    rendezvous: str | None = None,
) -> Membership:
    """Say who this node is.

    Raises InputError where that is not said, or said in two ways that cannot both be.
    """
    env = {name: value.strip() for name, value in env.items() if value.strip()}
    count = _count(env, nnodes)
    number = count.number(1, MAX_NODES, "the number of nodes")
    rank = _rank(env, node_rank, alone=number == 1)
    place = rank.number(0, MAX_NODES - 1, "a node rank")
    if place >= number:
        ranks = f"0 to {number - 1}" if number > 1 else "0 alone"
        problem = f"with {number} node{'s' if number > 1 else ''} ({count.by}), ranks are {ranks}"
        raise rank.error(problem, f"correct one of the two, or {_OVER}")
    if number == 1 and rendezvous is None:
        return Membership(place, number, "", DEFAULT_PORT, (rank.by, count.by))
    host, port, by = _endpoint(env, rendezvous)
    return Membership(place, number, host, port, (rank.by, count.by, by))


def describe_nodes(ranks: Collection[int], nnodes: int) -> str:
    """`node 1 of 2`, `nodes 1, 3-5 of 8`."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    names = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"node{'s' if len(ranks) != 1 else ''} {names} of {nnodes}"


# How many, and which


def _first(env: Mapping[str, str], *names: str) -> _Said | None:
    return next((_Said(name, env[name]) for name in names if name in env), None)


def _count(env: Mapping[str, str], option: int | None) -> _Said:
    if option is not None:
        return _Said("--nnodes", str(option))
    if "PET_NNODES" in env:
        least, colon, most = env["PET_NNODES"].partition(":")
        if colon and least != most:
            raise InputError(
                f"PET_NNODES {env['PET_NNODES']}: the number of nodes is fixed, not a range",
                hint="give --nnodes N",
            )
        return _Said("PET_NNODES", least)
    said = _first(env, "SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    said = said or _of_nodes(env, "WORLD_SIZE")
    if said is None:
        names = "PET_NNODES, SLURM_NNODES or WORLD_SIZE"
        raise InputError("how many nodes join is not said", hint=f"--nnodes N, or {names}")
    return said


def _rank(env: Mapping[str, str], option: int | None, *, alone: bool) -> _Said:
    if option is not None:
        return _Said("--node-rank", str(option))
    said = _first(env, "PET_NODE_RANK") or _slurm_rank(env)
    said = said or _first(env, "JOB_COMPLETION_INDEX") or _of_nodes(env, "RANK")
    if said is None and alone:
        return _Said("--nnodes", "0")
    if said is None:
        names = "PET_NODE_RANK, SLURM_NODEID, JOB_COMPLETION_INDEX or RANK"
        raise InputError(
            "which node this is, is not said", hint=f"--node-rank R from 0 on, or {names}"
        )
    return said


def _slurm_rank(env: Mapping[str, str]) -> _Said | None:
    said = _first(env, "SLURM_NODEID", "SLURM_PROCID")
    tasks = _first(env, "SLURM_STEP_NUM_TASKS")  # a job's tasks are not those of its steps
    nodes = _first(env, "SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    if said is not None and tasks is not None and nodes is not None and tasks.value != nodes.value:
        raise tasks.error(
            f"there are {nodes.value} nodes ({nodes.by}), and zlaunch join is one task a node",
            f"srun --ntasks-per-node=1 zlaunch join ..., or {_OVER}",
        )
    return said


def _of_nodes(env: Mapping[str, str], name: str) -> _Said | None:
    """RANK or WORLD_SIZE, where it speaks of nodes: within a worker it does not."""
    said = _first(env, name)
    worker = _first(env, *_OF_WORKERS)
    if said is not None and worker is not None:
        raise said.error(
            f"{worker.by} is set too, so it is a worker's and not a node's",
            f"start zlaunch join once a node; or {_OVER}",
        )
    return said


# Where


def _endpoint(env: Mapping[str, str], option: str | None) -> tuple[str, int, str]:
    if option is not None:
        return _split(_Said("--rendezvous", option.strip()))
    whole, master = _first(env, "PET_RDZV_ENDPOINT"), _first(env, "PET_MASTER_ADDR")
    if whole is not None:
        return _split(whole)
    if master is not None:
        return _with_port(master, _first(env, "PET_MASTER_PORT"))
    nodes = _first(env, *_NODELISTS)
    if nodes is not None:
        return _first_host(nodes), DEFAULT_PORT, nodes.by
    master = _first(env, "MASTER_ADDR")
    if master is not None:
        return _with_port(master, _first(env, "MASTER_PORT"))
    names = "PET_RDZV_ENDPOINT, PET_MASTER_ADDR, SLURM_JOB_NODELIST or MASTER_ADDR"
    raise InputError("where node 0 listens is not said", hint=f"--rendezvous HOST:PORT, or {names}")


def _split(said: _Said) -> tuple[str, int, str]:
    """Read HOST, HOST:PORT, an IPv6 address, or one in brackets with a port."""
    text = said.value
    bracketed = re.fullmatch(r"\[([^\[\]]*)\](?::(.*))?", text)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
        named = is_ipv6(host)
    elif is_ipv6(text):
        host, port, named = text, None, True
    else:
        host, colon, port = text.partition(":")
        port, named = port if colon else None, NAME.fullmatch(host) is not None
    if not named:
        raise said.error("expected HOST:PORT", "such as node0:29400, or [fd00::1]:29400")
    return host, _port(said, port), said.by


def _port(said: _Said, text: str | None) -> int:
    if text is None:
        return DEFAULT_PORT
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= 65535:
        raise said.error("a port is a number from 1 to 65535", "such as node0:29400")
    return int(text)


def _with_port(master: _Said, port: _Said | None) -> tuple[str, int, str]:
    bare = master.value[1:-1] if master.value.startswith("[") else master.value
    if not NAME.fullmatch(bare) and not is_ipv6(bare):
        raise master.error("expected a host name or address", "--rendezvous HOST:PORT")
    return bare, DEFAULT_PORT if port is None else _port(port, port.value), master.by


def _first_host(nodes: _Said) -> str:
    """The first name of Slurm's list, whose ranges are written as ours are."""
    try:
        return expand(_COMMA.split(nodes.value)[0])[0]
    except SelectionError as error:
        raise nodes.error(error.message, "--rendezvous HOST:PORT") from error
