"""What the user asked for: the options of `run`, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zlaunch.errors import InputError
from zlaunch.spec.joining import Membership
from zlaunch.spec.slots import MAX_SLOTS

DeviceChoice = Literal["auto", "cuda", "cpu"]
TargetChoice = Literal["auto", "plain", "hf", "accelerate"]
LocalRankArg = Literal["auto", "always", "never"]
Precision = Literal["fp16", "bf16", "fp32"]


PLACEHOLDER = "{ds_config}"
"""Stands in the script's arguments for the path of the ds_config."""


HostKeys = Literal["strict", "accept-new"]
SshChoice = Literal["paramiko", "openssh"]


@dataclass(frozen=True)
class ManyHosts:
    """What only `multinode` has; times in seconds.

    `uncounted` is the number of slots of hosts that have none, where they are not to be asked.
    """

    hostfile: str | None = None
    hosts: str | None = None
    num_nodes: int | None = None
    force_ssh: bool = False
    ssh: SshChoice = "paramiko"
    ssh_host_keys: HostKeys = "strict"
    connect_timeout: float = 15.0
    heartbeat: float = 15.0
    env: tuple[str, ...] = ()
    env_files: tuple[str, ...] = ()
    setup: str | None = None
    uncounted: int | None = None


@dataclass(frozen=True)
class Join:
    """What only `join` has; times in seconds. The token itself is read when it is needed."""

    member: Membership
    token_file: str | None = None
    timeout: float = 300.0
    heartbeat: float = 15.0


@dataclass(frozen=True)
class Request:
    """One field an option; None where it was not given. Sizes of batches are in samples."""

    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    no_python: bool = False
    python: str | None = None
    # devices
    num_gpus: int | None = None
    nproc: int | None = None
    cpu: int | None = None
    device: DeviceChoice = "auto"
    gpus: str | None = None
    include: str | None = None
    exclude: str | None = None
    # ds_config
    recipe: str | None = None
    ds_config: str | None = None
    precision: Precision | None = None
    overrides: tuple[str, ...] = ()
    micro_batch: int | None = None
    global_batch: int | None = None
    accumulate: int | None = None
    target: TargetChoice = "auto"
    ds_arg: str | None = None
    local_rank_arg: LocalRankArg = "auto"
    # rendezvous
    master_addr: str | None = None
    master_port: int = 0
    # the run
    name: str | None = None
    grace: float = 30.0
    console_ranks: str = "all"
    quiet: bool = False
    verbose: bool = False
    # many nodes; `allow` holds codes of what may be wrong with them
    preflight: bool = True
    allow: frozenset[str] = frozenset()
    many: ManyHosts | None = None
    join: Join | None = None

    @property
    def wants_deepspeed(self) -> bool:
        """Whether the user said anything that only a ds_config can answer."""
        batch = (self.micro_batch, self.global_batch, self.accumulate)
        said = (self.recipe, self.ds_config, self.precision, self.ds_arg, *batch)
        asked_for = any(PLACEHOLDER in arg for arg in self.args)
        return bool(self.overrides) or asked_for or any(value is not None for value in said)


def check(request: Request) -> None:
    """Refuse options that contradict each other.

    Raises InputError.
    """
    pairs = (
        (request.module, "--module", request.no_python, "--no-python"),
        (request.recipe, "--recipe", request.ds_config, "--ds-config"),
        (request.python, "--python", request.no_python, "--no-python"),
        (request.cpu is not None, "--cpu", request.device == "cuda", "--device cuda"),
        *((request.cpu is not None, "--cpu", value, name) for value, name in _gpu_options(request)),
        *(
            (request.device == "cpu", "--device cpu", value, name)
            for value, name in _gpu_options(request)
        ),
    )
    for one, one_name, other, other_name in pairs:
        if one and other:
            raise InputError(
                f"{one_name} and {other_name} contradict each other", hint="give one of them"
            )
    _check_texts(request)
    _check_numbers(request)
    if request.many is not None:
        _check_many(request.many)
    if request.join is not None:
        _check_join(request.join, request.master_port)


def _check_texts(request: Request) -> None:
    texts = {"--recipe": request.recipe, "--ds-config": request.ds_config, "--name": request.name}
    for name, text in texts.items():
        if text is not None and not text.strip():
            raise InputError(f"{name} is empty", hint="leave it out")
    if request.name is not None and not request.name.isprintable():
        raise InputError(f"--name {request.name!r} cannot be shown as it is")


def _gpu_options(request: Request) -> tuple[tuple[bool, str], ...]:
    if request.many is not None:  # there they choose hosts and slots, whatever these are
        return ()
    return (
        (request.num_gpus is not None, "--num-gpus"),
        (request.gpus is not None, "--gpus"),
        (request.include is not None, "--include"),
        (request.exclude is not None, "--exclude"),
    )


def _check_numbers(request: Request) -> None:
    counts = {"--num-gpus": request.num_gpus, "--nproc": request.nproc, "--cpu": request.cpu}
    for name, count in counts.items():
        if count is not None and count < 1:
            raise InputError(f"{name} {count}: at least one worker is needed")
        if count is not None and count > MAX_SLOTS:
            raise InputError(f"{name} {count}: one machine has {MAX_SLOTS} workers at most")
    given = {name: count for name, count in counts.items() if count is not None}
    if len(set(given.values())) > 1:
        words = " and ".join(f"{name} {count}" for name, count in given.items())
        raise InputError(f"{words} contradict each other", hint="give one of them")
    if not 0 <= request.master_port <= 65535:
        raise InputError(
            f"--master-port {request.master_port}: a port is a number from 1 to 65535",
            hint="0, or no --master-port, has a free one picked",
        )
    if not 0 <= request.grace < float("inf"):
        raise InputError(f"--grace {request.grace}: seconds from 0 on are needed")


def _check_many(many: ManyHosts) -> None:
    if (many.hostfile is None) == (many.hosts is None):
        raise InputError("multinode needs --hostfile FILE or --hosts A,B; one of them")
    _check_seconds({"--connect-timeout": many.connect_timeout, "--heartbeat": many.heartbeat})
    if many.setup is not None and ("\0" in many.setup or not many.setup.strip()):
        raise InputError("--setup is no command", hint="such as --setup 'source env.sh'")


def _check_join(join: Join, master_port: int) -> None:
    _check_seconds({"--join-timeout": join.timeout, "--heartbeat": join.heartbeat})
    if master_port == join.member.port and join.member.nnodes > 1:
        raise InputError(
            f"--master-port {master_port} is where the nodes meet, and rank 0 needs another",
            hint="leave --master-port out to have a free one picked",
        )


def _check_seconds(given: dict[str, float]) -> None:
    for name, value in given.items():
        if not 0.5 <= value < 86400:
            raise InputError(f"{name} {value:g}: seconds from 0.5 on are needed")
