"""What the user asked for: the options of `run`, as one value."""

from __future__ import annotations

from typing import Literal

from zlaunch.cli.forward_signals import DEFAULT, read_forward_signals
from zlaunch.cli.log_max import read_log_max
from zlaunch.cli.run_name import check_name
from zlaunch.cli.waiting import read_duration
from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.spec.allocation import Allocation
from zlaunch.spec.joining import Membership
from zlaunch.spec.slots import MAX_SLOTS

DeviceChoice = Literal["auto", "cuda", "cpu"]
TargetChoice = Literal["auto", "plain", "hf", "accelerate"]
LocalRankArg = Literal["auto", "always", "never"]
Precision = Literal["fp16", "bf16", "fp32"]
OnHang = Literal["report", "stop"]
StartChoice = Literal["auto", "warm", "cold"]


PLACEHOLDER = "{ds_config}"
"""Stands in the script's arguments for the path of the ds_config."""


_MOST_RESTARTS = 10_000
_SHORTEST_HANG = 1.0  # seconds
_LONGEST_HANG = 60 * 24 * 30  # minutes

HostKeys = Literal["strict", "accept-new"]
SshChoice = Literal["paramiko", "openssh"]


@frozen
class ManyHosts:
    """What only `multinode` has; times in seconds.

    `uncounted` is the number of slots of hosts that have none, where they are not to be asked.
    With an `allocation` of Slurm they are its nodes, and reached by its steps; `alone`,
    where it is cut to the one node of `run`.
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
    allocation: Allocation | None = None
    alone: bool = False


@frozen
class Join:
    """What only `join` has; times in seconds. The token itself is read when it is needed."""

    member: Membership
    token_file: str | None = None
    timeout: float = 300.0
    heartbeat: float = 15.0


@frozen
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
    # leases
    idle: bool = False
    wait: str | None = None
    share_gpus: bool = False
    lease_dir: str | None = None
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
    metrics_port: int | None = None
    name: str | None = None
    grace: float = 30.0
    max_restarts: int = 0
    healthy_after: float = 30.0
    exit_limit: float | None = None
    hang_timeout: float | None = None  # minutes
    on_hang: OnHang = "report"
    stacks: bool = True
    start: StartChoice = "auto"
    preload: str | None = None
    build_ops: bool = True
    forward_signals: str = DEFAULT
    on_exit: str | None = None
    console_ranks: str = "all"
    log_max: str | None = None
    stdin_rank: int | None = None
    debug: bool = False
    detach: bool = False
    live: bool = False
    quiet: bool = False
    verbose: bool = False
    # many nodes; `allow` holds codes of what may be wrong with them
    preflight: bool = True
    allow: frozenset[str] = frozenset()
    many: ManyHosts | None = None
    join: Join | None = None

    @property
    def count(self) -> tuple[int | None, str]:
        """How many GPUs were asked for, and by which option."""
        return self.num_gpus or self.nproc, "--nproc" if self.nproc else "--num-gpus"

    @property
    def forwarded(self) -> tuple[int, ...]:
        """The numbers of the signals that go to the ranks; raises InputError."""
        return read_forward_signals(self.forward_signals)

    @property
    def log_bytes(self) -> int | None:
        """How much of each rank's log is kept; None: all. Raises InputError."""
        return None if self.log_max is None else read_log_max(self.log_max)

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
        (request.share_gpus, "--share-gpus", request.idle, "--idle"),
        (request.share_gpus, "--share-gpus", request.wait is not None, "--wait"),
        *(
            (on_cpu, how, asked, name)
            for on_cpu, how in _on_cpu(request)
            for asked, name in ((request.idle, "--idle"), (request.wait is not None, "--wait"))
        ),
        (request.debug, "--debug", request.max_restarts > 0, "--max-restarts"),
        # nobody can type there
        (request.detach, "--detach", request.debug, "--debug"),
        (request.live, "--live", request.debug, "--debug"),
        (request.detach, "--detach", request.stdin_rank is not None, "--stdin-rank"),
        # a rank that waits for somebody to type makes no progress
        (request.debug, "--debug", request.on_hang == "stop", "--on-hang stop"),
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
    read_duration(request.wait)
    _check_hang(request)
    _check_metrics_port(request)
    _check_numbers(request)
    _ = request.forwarded, request.log_bytes
    if request.many is not None:
        _check_many(request.many)
    if request.join is not None:
        _check_join(request.join, request.master_port)


def _check_texts(request: Request) -> None:
    texts = {
        "--recipe": request.recipe,
        "--ds-config": request.ds_config,
        "--name": request.name,
        "--on-exit": request.on_exit,
    }
    for name, text in texts.items():
        if text is not None and not text.strip():
            raise InputError(f"{name} is empty", hint="leave it out")
    if request.name is not None:
        check_name(request.name)
    if "\0" in (request.on_exit or ""):
        raise InputError("--on-exit is no command: it has a byte 0 in it")


def _on_cpu(request: Request) -> tuple[tuple[bool, str], ...]:
    return (request.cpu is not None, "--cpu"), (request.device == "cpu", "--device cpu")


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
    if not 0 <= request.max_restarts <= _MOST_RESTARTS:
        raise InputError(f"--max-restarts {request.max_restarts}: 0 to {_MOST_RESTARTS}")
    seconds = {
        "--grace": request.grace,
        "--healthy-after": request.healthy_after,
        "--exit-limit": request.exit_limit or 0.0,
    }
    for name, value in seconds.items():
        if not 0 <= value < float("inf"):
            raise InputError(f"{name} {value:g}: seconds from 0 on are needed")


def _check_hang(request: Request) -> None:
    minutes = request.hang_timeout
    if minutes is None:
        if request.on_hang != "report":
            raise InputError(f"--on-hang {request.on_hang} needs --hang-timeout MINUTES")
    elif not _SHORTEST_HANG / 60 <= minutes <= _LONGEST_HANG:
        raise InputError(
            f"--hang-timeout {minutes:g}: minutes are needed, fractions too",
            hint=f"from {_SHORTEST_HANG / 60:.3f}, which is a second, to {_LONGEST_HANG} (30 days)",
        )


def _check_metrics_port(request: Request) -> None:
    port, way_out = request.metrics_port, "0 has a free one picked"
    if port is not None and not 0 <= port <= 65535:
        raise InputError(f"--metrics-port {port}: a port is a number from 1 to 65535", hint=way_out)
    if port and port == request.master_port:
        where = f"--metrics-port {port} is where rank 0 listens (--master-port)"
        raise InputError(where, hint=f"choose another; {way_out}")


def _check_many(many: ManyHosts) -> None:
    named = [name for name in (many.hostfile, many.hosts) if name is not None]
    if len(named) > 1 or (not named and many.allocation is None):
        hint = None if named else "in an allocation of Slurm it needs neither"
        raise InputError("multinode needs --hostfile FILE or --hosts A,B; one of them", hint=hint)
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
