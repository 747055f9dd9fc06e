"""Judges what hosts said of themselves: what would make a run on them fail.

Pure: facts in, findings out. A finding names its host, has a code by which the user can allow
it, and says what is wrong and, where that is known, the way out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from zlaunch.frozen import frozen
from zlaunch.spec.facts import Facts, Gpu
from zlaunch.spec.slots import Slot

LEAST_SHM = 10**9  # bytes; NCCL and data loaders die by SIGBUS in a container's usual 64 MB
MOST_CLOCK = 2.0  # seconds off
_GIB = 1 << 30
_IN_USE = _GIB  # bytes of a GPU; an idle card under a desktop or a monitor has less

CODES = {
    "unreachable": "the host cannot be reached",
    "setup": "the command of --setup fails",
    "directory": "the working directory is missing",
    "python": "the interpreter or program is missing or fails",
    "script": "the script is missing or another one",
    "packages": "torch, deepspeed or what the script imports is missing",
    "versions": "hosts have different versions",
    "cuda": "torch has no CUDA, or one that the driver is too old for",
    "gpus": "fewer GPUs than slots",
    "gpu-in-use": "a GPU's memory is in use",
    "shm": "/dev/shm is under 1 GB",  # noqa: S108 - a text
    "clock": "the clock is more than 2 s off",
    "port": "the rendezvous port cannot be had or reached",
    "lock": "a stale lock in torch's cache of extensions",
    "arch-list": "a TORCH_CUDA_ARCH_LIST that DeepSpeed cannot read",
    "probe": "the host could not be looked at",
}
"""What `--allow` takes, and what it lets pass."""

# What does not stop a run by itself: said, and passed over.
_WARNINGS = {"lock"}


@frozen
class Finding:
    """Something that is wrong on a host; a `warning` alone does not keep a run from starting."""

    host: str
    code: str
    text: str
    hint: str = ""

    @property
    def warning(self) -> bool:
        """Whether a run starts all the same."""
        return self.code in _WARNINGS


@frozen
class Examined:
    """A host with what was asked of it, what it said, and how its clock and port were found.

    `clock` bounds how far its clock is ahead of ours, in seconds. `needed` names packages that
    the script cannot do without; others that were asked for need only be the same everywhere.
    `digest` is the SHA-256 of the launcher's script, None where it has none. `port_taken` is why
    node 0 cannot listen, `port_problem` why a node cannot get there.
    """

    host: str
    facts: Facts
    slots: tuple[Slot, ...] = ()
    gpus: bool = False
    directory: str = ""
    program: str = ""
    script: str = ""
    digest: str | None = None
    module: str = ""
    needed: tuple[str, ...] = ()
    clock: tuple[float, float] = (0.0, 0.0)
    port_taken: str = ""
    port_problem: str = ""


def judge(hosts: Sequence[Examined]) -> tuple[Finding, ...]:
    """Return everything that is wrong, host by host in their order."""
    different = _differences(hosts)
    return tuple(
        finding
        for host in hosts
        for finding in (*_alone(host), *(f for f in different if f.host == host.host))
    )


def _alone(host: Examined) -> Iterator[Finding]:
    """What can be said of a host without looking at the others."""
    for check in _CHECKS:
        for code, text, hint in check(host):
            yield Finding(host.host, code, text, hint)


_Said = Iterable[tuple[str, str, str]]


def _place(host: Examined) -> _Said:
    facts = host.facts
    for trouble in facts.trouble:
        yield "probe", trouble, ""
    if facts.directory:
        hint = "workdir= in the hostfile names another place"
        yield "directory", f"directory {host.directory}: {facts.directory}", hint
        return
    if facts.program:
        yield "python", f"{host.program}: {facts.program}", "--python, or python= in the hostfile"
    if host.digest is not None and facts.script is None:
        yield "script", f"script {host.script} is missing", ""
    elif host.digest is not None and facts.script != host.digest:
        yield "script", f"script {host.script} is not the one here", "copy it there"
    if host.module and not facts.module:
        yield "script", f"module {host.module} is missing", ""


def _packages(host: Examined) -> _Said:
    missing = [name for name in host.needed if host.facts.packages.get(name, "?") is None]
    if missing:
        have = "is" if len(missing) == 1 else "are"
        text = f"{' and '.join(missing)} {have} missing from {host.facts.executable}"
        yield "packages", text, "install it there, or name another interpreter by --python"


def _cuda(host: Examined) -> _Said:
    facts = host.facts
    torch = facts.packages.get("torch")
    if not host.gpus or torch is None or facts.cuda == "rocm":
        return
    if not facts.cuda:
        yield "cuda", f"torch {torch} is built without CUDA", "install a CUDA build"
    elif _major(facts.cuda) > _major(facts.driver_cuda):
        text = f"torch {torch} needs CUDA {facts.cuda}; driver {facts.driver} goes up to"
        yield "cuda", f"{text} {facts.driver_cuda}", "update the driver, or take an older build"


def _major(version: str) -> int:
    """The major version, within which CUDA's drivers are compatible; unknown ones are new."""
    number = version.partition(".")[0]
    return int(number) if number.isdigit() else 10**6


def _gpus(host: Examined) -> _Said:
    if not host.gpus:
        return
    found = host.facts.gpus
    if found is None:
        if not host.facts.trouble:
            hint = "--device cpu trains without GPUs"
            yield "gpus", "neither NVML nor nvidia-smi finds a driver", hint
        return
    absent = [slot for slot in host.slots if not any(gpu.is_slot(slot) for gpu in found)]
    if absent:
        listed = ", ".join(map(str, absent))
        has = f"{len(found)} GPU{'s' if len(found) != 1 else ''}"
        text = f"{len(host.slots)} slots, but {has} there: {listed} missing"
        yield "gpus", text, "slots= is the number of its GPUs"
    for gpu in found:
        if (gpu.used or 0) >= _IN_USE and any(gpu.is_slot(slot) for slot in host.slots):
            yield "gpu-in-use", _in_use(gpu), ""


def _in_use(gpu: Gpu) -> str:
    assert gpu.used is not None
    by = f" by {', '.join(gpu.users)}" if gpu.users else ""
    used, memory = gpu.used / _GIB, gpu.memory / _GIB
    return f"GPU {gpu.index} is in use: {used:.1f} of {memory:.0f} GiB{by}"


def _memory(host: Examined) -> _Said:
    shm = host.facts.shm
    if host.gpus and shm is not None and shm < LEAST_SHM:
        hint = "docker run --shm-size=16g, or an emptyDir with medium: Memory in Kubernetes"
        yield "shm", f"/dev/shm has {shm / 1e6:.0f} MB free, and 1 GB is needed", hint  # noqa: S108


def _clock(host: Examined) -> _Said:
    low, high = host.clock
    if low > MOST_CLOCK or high < -MOST_CLOCK:
        way = "ahead of" if low > 0 else "behind"
        off = abs(low + high) / 2
        yield "clock", f"its clock is {off:.1f} s {way} this machine's", "NTP or chrony sets it"


def _port(host: Examined) -> _Said:
    if host.port_taken:
        yield "port", host.port_taken, "leave --master-port out to have a free one picked"
    if host.port_problem:
        hint = "--master-addr and --master-port choose another; see the firewall between them"
        yield "port", host.port_problem, hint


def _build(host: Examined) -> _Said:
    for path in host.facts.locks:
        text = f"{path} is left from a build that was killed; ranks wait on it for ever"
        yield "lock", text, f"rm {path}"
    problem = arch_list_problem(host.facts.arch_list) if host.gpus else None
    if problem is not None and "deepspeed" in host.facts.packages:
        yield "arch-list", problem, "write 9.0, or 8.0;9.0+PTX"


_CHECKS: tuple[Callable[[Examined], _Said], ...] = (
    _place,
    _packages,
    _cuda,
    _gpus,
    _memory,
    _clock,
    _port,
    _build,
)

_ARCH = re.compile(r"[0-9]+\.[0-9]+(\+PTX)?")


def arch_list_problem(text: str) -> str | None:
    """Say what DeepSpeed's builder cannot read in TORCH_CUDA_ARCH_LIST.

    It takes `MAJOR.MINOR` and `MAJOR.MINOR+PTX` (`compute_capability_args` in
    deepspeed/ops/op_builder/builder.py), while torch also knows 9.0a and names.
    """
    wrong = [part for part in re.split(r"[;\s]+", text) if part and not _ARCH.fullmatch(part)]
    return f"TORCH_CUDA_ARCH_LIST={text}: DeepSpeed cannot read {wrong[0]}" if wrong else None


# Hosts beside each other


def _differences(hosts: Sequence[Examined]) -> tuple[Finding, ...]:
    names: dict[str, None] = {}
    for host in hosts:
        names.update(dict.fromkeys(host.facts.packages))
    findings: list[Finding] = []
    for name in names:
        versions = {
            host.host: host.facts.packages[name] for host in hosts if name in host.facts.packages
        }
        needed = {host.host for host in hosts if name in host.needed}
        findings += _unlike(name, versions, needed)
    builds = {h.host: h.facts.cuda for h in hosts if h.facts.packages.get("torch") is not None}
    torch = {h.host: h.facts.packages.get("torch") for h in hosts}
    if len(set(torch.values())) <= 1:  # else the versions of torch have said it already
        findings += _unlike(
            "CUDA of torch", {host: cuda or "none" for host, cuda in builds.items()}
        )
    return tuple(findings)


def _unlike(
    name: str, versions: Mapping[str, str | None], reported: Iterable[str] = ()
) -> Iterator[Finding]:
    """Name the hosts that do not have what most have; among equals the first host is right.

    A package that a host lacks is told only where others have it; of `reported` hosts it has
    been told already.
    """
    counts = Counter(versions.values())
    if len(counts) < 2:
        return
    usual = max(counts, key=lambda version: (version is not None, counts[version]))
    having = [host for host, version in versions.items() if version == usual]
    for host, version in versions.items():
        if version == usual or (version is None and host in reported):
            continue
        here = "is missing" if version is None else version
        yield Finding(host, "versions", f"{name} {here}, and {usual} on {_some(having)}")


def _some(hosts: Sequence[str]) -> str:
    """`a, b`, or `a, b and 6 others`."""
    rest = len(hosts) - 2
    more = f" and {rest} other{'s' if rest > 1 else ''}" if rest > 0 else ""
    return ", ".join(hosts[:2]) + more
