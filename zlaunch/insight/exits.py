"""What an exit code or a signal says alone, and what stands beside an error in the log."""

from __future__ import annotations

import re

from zlaunch.insight.cause_table import Kind, Told
from zlaunch.insight.causes_memory import HOST_MEMORY
from zlaunch.insight.evidence import RankEnd
from zlaunch.insight.printed import NATIVE
from zlaunch.insight.rank_words import RankWords
from zlaunch.insight.tracebacks import Raised

# Linux's numbers: a log is read on another machine than the one it was written on.
HUP, INT, QUIT, ILL, ABRT, BUS, FPE, KILL, USR1, SEGV, USR2, PIPE, ALRM, TERM = (
    1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
)  # fmt: skip
NAMES = {
    HUP: "SIGHUP", INT: "SIGINT", QUIT: "SIGQUIT", ILL: "SIGILL", 5: "SIGTRAP", ABRT: "SIGABRT",
    BUS: "SIGBUS", FPE: "SIGFPE", KILL: "SIGKILL", USR1: "SIGUSR1", SEGV: "SIGSEGV",
    USR2: "SIGUSR2", PIPE: "SIGPIPE", ALRM: "SIGALRM", TERM: "SIGTERM", 24: "SIGXCPU",
    25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
_NUMBERS = {name: number for number, name in NAMES.items()}
_SMALL_SHM = 1 << 30


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 40`."""
    return NAMES.get(number, f"signal {number}")


def signal_number(name: str) -> int | None:
    """The number of `SIGKILL`."""
    return _NUMBERS.get(name)


def exit_in_words(end: RankEnd | None) -> str:
    """`exit code 1`, `SIGKILL`."""
    if end is None or (end.code is None and end.signal is None):
        return ""
    return f"exit code {end.code}" if end.signal is None else signal_name(end.signal)


def without_words(end: RankEnd) -> tuple[Kind, str, Told, bool]:
    """Kind, code and words for a rank whose lines explain nothing; whether that explains it."""
    number, code = end.signal, end.code or 0
    through_shell = number is None and 128 < code < 160 and code - 128 in NAMES
    if through_shell:
        number = code - 128
    if number is None:
        told = Told(
            f"exit code {code}, and nothing that it printed explains it",
            (),
            ("its own last lines; the script may call sys.exit() or os._exit() itself",),
        )
        return Kind.STOPPED if end.stopped else Kind.OWN, "exit-code", told, False
    kind = Kind.STOPPED if end.stopped or number in (TERM, INT, HUP) else Kind.OWN
    name, told = _signalled(number, end)
    if through_shell:
        told = Told(told.title, (f"told by exit code {code} of a shell", *told.details), told.mends)
    return kind, name, told, True


def _signalled(number: int, end: RankEnd) -> tuple[str, Told]:
    if number == KILL:
        return _killed(end)
    if number == BUS:
        return _bus(end)
    native = {SEGV: "segmentation-fault", ABRT: "aborted", ILL: "illegal-instruction",
              FPE: "floating-point-exception"}  # fmt: skip
    titles = {
        SEGV: "SIGSEGV: native code touched memory that is not its own",
        ABRT: "SIGABRT: native code gave up (an assertion, or an exception that nobody caught)",
        ILL: "SIGILL: an instruction that this CPU does not have, or a trap in native code",
        FPE: "SIGFPE: a division by zero in native code",
    }
    if number in native:
        mends: tuple[str, ...] = NATIVE
        if number == ILL:
            mends = (("a build for this CPU: torch or an operator was compiled on a newer one, "
                     "remove ~/.cache/torch_extensions"), *NATIVE)  # fmt: skip
        return native[number], Told(titles[number], (), mends)
    if number == INT:
        return "interrupted", Told("interrupted from the keyboard (SIGINT)")
    if number == TERM:
        told = Told("stopped by SIGTERM", ("a batch system at its time limit, or somebody",))
        return "terminated", told
    return "signalled", Told(f"ended by {signal_name(number)}")


def _killed(end: RankEnd) -> tuple[str, Told]:
    kills = end.signs.get("oom_kills", 0)
    if kills > 0:
        times = f"the kernel killed {kills} process{'es' if kills > 1 else ''} for memory meanwhile"
        told = Told("SIGKILL: the host's memory, or the limit of its cgroup, was full", (times,),
                    HOST_MEMORY)  # fmt: skip
        return "host-out-of-memory", told
    known = "oom_kills" in end.signs
    told = Told(
        "SIGKILL: killed by somebody, or by the kernel since the host's memory was full",
        ("no kill for memory was counted in its own cgroup; another one's is possible",)
        if known
        else (),
        ("`dmesg -T | grep -i -E 'oom|killed process'` on its host tells", *HOST_MEMORY),
    )
    return "killed", told


def _bus(end: RankEnd) -> tuple[str, Told]:
    size, free = end.signs.get("shm_size"), end.signs.get("shm_free")
    details = []
    if size is not None:
        left = f", {free / 2**20:.0f} MiB of it free at the end" if free is not None else ""
        details.append(f"the shared memory /dev/shm has {size / 2**20:.0f} MiB{left}")
    sure = size is not None and (size < _SMALL_SHM or (free or size) < size // 10)
    title = "SIGBUS: /dev/shm is full" if sure else "SIGBUS: most often /dev/shm is full"
    mends = (
        (
            "give it room: docker run --shm-size=16g or --ipc=host; Kubernetes: an emptyDir with "
            "medium Memory on /dev/shm"
        ),
        "or fewer workers of the DataLoader; a file that was mapped and then cut does the same",
    )
    return "shared-memory-full", Told(title, tuple(details), mends)


_ASSERTION = re.compile(r"(\w+(?:\(\))?): block: \[.*Assertion `(.+?)` failed")
_NO_NAME = re.compile(
    r"addresses of \((\S+), \d+\) cannot be retrieved \(gai error: -?\d+ - (.+?)\)"
)
_COMPILER = re.compile(r"(?:\S+:\d+:\d*:? )?(?:fatal )?error: .{3,200}|/bin/\S+: .*not found.*")


def beside(code: str, words: RankWords, raised: Raised) -> tuple[str, ...]:
    """What the lines above an error say about it, which the error itself does not."""
    above = words.lines[max(0, raised.start - 400) : raised.end]
    if code == "device-side-assert":
        found = next((m for line in above if (m := _ASSERTION.search(line))), None)
        return (f"{found[1]}: `{found[2]}` failed",) if found else ()
    if code == "master-not-reached":
        found = next((m for line in above if (m := _NO_NAME.search(line))), None)
        return (f"the name {found[1]} cannot be looked up: {found[2]}",) if found else ()
    if code == "operator-not-compiled":
        error = next((m[0] for line in above if (m := _COMPILER.search(line))), None)
        return (f"the compiler: {error}",) if error else ()
    return ()
