"""Every fault that a run may meet, and what it has to come to on each way to an agent.

Each rank has a family of all kinds of descendants, of which none may outlive the run.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hosts import Lab
from ways import LONG, Launch, Way

RANKS = (1, 1)
WORLD = sum(RANKS)
LAST = WORLD - 1  # alone on the other node, where there is one
REMOTE = ("paramiko", "openssh", "join")
WAYS = ("local", *REMOTE)
BOUND = 20.0  # seconds beyond the grace until nothing is left, for a machine under load

# In its group; in a session of its own; with nothing in its environment (save where only that tells
# who is left); re-parented, forked twice; and one that has left the group and holds the pipe.
JOB = """
import os, signal, subprocess, sys, time
mode, rank = sys.argv[1], os.environ["RANK"]
if mode in ("ignores", "marked"):
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)  # the children too: it is inherited
sleep, null = ["/bin/sleep", "600"], subprocess.DEVNULL
shut = {"stdout": null, "stderr": null}
family = [
    subprocess.Popen(sleep, **shut).pid,
    subprocess.Popen(sleep, **shut, start_new_session=True).pid,
]
if mode != "marked":
    family.append(subprocess.Popen(sleep, **shut, start_new_session=True, env={}).pid)
if mode != "obeys":  # who holds the pipe is waited for a little
    family.append(subprocess.Popen(sleep, start_new_session=True).pid)
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    child = subprocess.Popen(sleep, **shut)
    os.write(writing, str(child.pid).encode())
    os._exit(0)
os.wait()
family.append(int(os.read(reading, 20)))
print("up", rank, os.getppid(), os.getpid(), *family, flush=True)
if mode == "saves":
    def save(*_):
        time.sleep(0.3)
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
while not os.path.exists(f"go-{rank}") and not os.path.exists("go"):
    time.sleep(0.02)
sys.exit(int(open("go" if os.path.exists("go") else f"go-{rank}").read()))
"""


@dataclass
class Run:
    """A run that was started, and once it is up who is who in it."""

    way: Way
    launch: Launch
    ranks: dict[int, int] = field(default_factory=dict)
    agents: dict[int, int] = field(default_factory=dict)
    handles: dict[int, int] = field(default_factory=dict)

    @property
    def launcher(self) -> int:
        return self.launch.process.pid

    @property
    def last_agent(self) -> int:
        """The one that is not beside the launcher, where there is such a one."""
        return self.agents[max(self.agents)]

    @property
    def last_keeper(self) -> int:
        return parent(self.last_agent)

    def wait_up(self) -> None:
        """Read what the ranks say of themselves."""
        out = self.launch.process.stdout
        assert out is not None
        for _ in range(WORLD):
            line = out.readline().partition(b"| ")[2].split()
            assert line[:1] == [b"up"], (line, self.launch.process.poll())
            rank, agent, *family = map(int, line[1:])
            self.ranks[rank] = family[0]
            self.agents[int(rank == LAST) if self.way.nodes > 1 else 0] = agent
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    self.handles[pid] = os.pidfd_open(pid)

    def end(self, name: str, code: int) -> None:
        """Let a rank (or with "go" all) end with this code."""
        part = self.way.folder / f"{name}.part"
        part.write_text(str(code))
        part.rename(self.way.folder / name)

    def send(self, signum: int, pid: int | None = None) -> None:
        """Signal the launcher, or another part of the run."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.launcher if pid is None else pid, signum)

    def survivors(self) -> list[int]:
        """Who of the families is alive, and who else has the marker in its environment."""
        waiting = select.poll()
        for handle in self.handles.values():
            waiting.register(handle, select.POLLIN)
        ended = {handle for handle, _ in waiting.poll(0)}
        living = {pid for pid, handle in self.handles.items() if handle not in ended}
        return sorted(living | set(self.way.alive()))

    def close(self) -> None:
        for handle in self.handles.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


def _catches(pid: int, signum: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next((line.split()[1] for line in status if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signum - 1) & 1)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@dataclass(frozen=True)
class Fault:
    """What is done to a run, and the exit codes that the launcher may end with then.

    `mode` is how ranks take it. An `early` one is done to a run that has just begun.
    """

    name: str
    strike: Callable[[Run], None]
    codes: tuple[int, ...]
    mode: str = "obeys"
    grace: float = 20.0
    ways: tuple[str, ...] = WAYS
    early: bool = False


@dataclass(frozen=True)
class Struck:
    """What came of it; `seconds` is from the fault until nothing was left."""

    code: int | None
    seconds: float
    survivors: list[int]
    words: str


def play(fault: Fault, name: str, lab: Lab, folder: Path) -> Struck:
    """Start a run, strike it, and see what is left."""
    way = Way(name, lab, folder, RANKS)
    (folder / "job.py").write_text(JOB)
    options = ("--grace", f"{fault.grace:g}")
    options += ("--heartbeat", "2") if name != "local" else ()
    options += ("--join-timeout", "5") if name == "join" else ()
    run = Run(way, way.start("job.py", fault.mode, options=options))
    try:
        if not fault.early:
            run.wait_up()
        begun = time.monotonic()
        fault.strike(run)
        code, words = _end(run.launch)
        limit = begun + fault.grace + BOUND
        while (left := run.survivors()) and time.monotonic() < limit:
            time.sleep(0.01)
        return Struck(code, time.monotonic() - begun, left, words)
    finally:
        run.close()
        way.close()
        lab.mend()


def _end(launch: Launch) -> tuple[int | None, str]:
    """Wait for all nodes of the run; the launcher's code and words."""
    try:
        out, err = launch.process.communicate(timeout=LONG)
        for other in launch.others:
            other.communicate(timeout=LONG)
    except subprocess.TimeoutExpired as error:
        return None, str(error)
    return launch.process.returncode, (out + err).decode(errors="replace")


# The faults


def signalled(signum: int, times: int = 1) -> Callable[[Run], None]:
    def strike(run: Run) -> None:
        for number in range(times):
            if number:
                time.sleep(0.4)  # a person's pace
            run.send(signum)

    return strike


def _clean(run: Run) -> None:
    run.end("go", 0)


def _fails(run: Run) -> None:
    run.end(f"go-{LAST}", 3)


def _first_ends_well(run: Run) -> None:
    """Its children hold the pipe while the others go on; then the run is stopped."""
    run.end("go-0", 0)
    time.sleep(0.3)
    run.send(signal.SIGTERM)


def rank_killed(signum: int) -> Callable[[Run], None]:
    return lambda run: run.send(signum, run.ranks[LAST])


def _ranks_stopped(run: Run) -> None:
    for pid in run.handles:
        run.send(signal.SIGSTOP, pid)
    run.send(signal.SIGTERM)


def _agent_killed(run: Run) -> None:
    run.send(signal.SIGKILL, run.last_agent)


def _agent_told(run: Run) -> None:
    run.send(signal.SIGTERM, run.last_agent)


def _keeper_killed(run: Run) -> None:
    run.send(signal.SIGKILL, run.last_keeper)


def _keeper_and_agent(run: Run) -> None:
    """Nobody of ours is left on that host; the launcher looks again, where it can get there."""
    agent, keeper = run.last_agent, run.last_keeper
    run.send(signal.SIGSTOP, keeper)
    run.send(signal.SIGKILL, agent)
    run.send(signal.SIGKILL, keeper)


def _agent_stopped(run: Run) -> None:
    run.send(signal.SIGSTOP, run.last_agent)


def _launcher_and_last_agent(run: Run) -> None:
    agent = run.last_agent
    run.send(signal.SIGKILL)
    run.send(signal.SIGKILL, agent)


def _sshd_killed(run: Run) -> None:
    assert run.way.lab.hosts[1].kill_sshd_sessions()


def _cut(run: Run) -> None:
    run.way.lab.hosts[1].cut()


def _failing_then(signum: int, who: str) -> Callable[[Run], None]:
    """While the others are being stopped: at any moment of it."""

    def strike(run: Run) -> None:
        pid = {"launcher": run.launcher, "agent": run.last_agent}[who]
        run.send(signal.SIGSEGV, run.ranks[0])
        time.sleep(random.uniform(0, 0.3))
        run.send(signum, pid)

    return strike


def early(signum: int) -> Callable[[Run], None]:
    """To the launcher, from its first instruction to the ranks' first line.

    Python answers INT with a traceback of its own while it starts, so that one comes later.
    """

    def strike(run: Run) -> None:
        while signum == signal.SIGINT and not _catches(run.launcher, signal.SIGUSR1):
            assert run.launch.process.poll() is None
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.9))
        run.send(signum)

    return strike


def _agent_at_start(run: Run) -> None:
    """As soon as it is there, or a little later: before Ready, before Start, while it starts."""
    end = time.monotonic() + LONG
    while not (agents := run.way.agents(run.launch)):
        assert time.monotonic() < end
        time.sleep(0.002)
    time.sleep(random.uniform(0, 0.15))
    run.send(signal.SIGKILL, agents[-1])


_KILLED = -signal.SIGKILL
_SEGV, _ABORTED = 128 + signal.SIGSEGV, (125, 128 + signal.SIGKILL, 128 + signal.SIGTERM)

FAULTS: tuple[Fault, ...] = (
    Fault("clean end", _clean, (0,), "holds"),
    Fault("a rank fails", _fails, (3,), "holds"),
    Fault("a rank ends well, the run is stopped", _first_ends_well, (143,), "holds"),
    Fault("kill -9 of a rank", rank_killed(signal.SIGKILL), (137,)),
    Fault("a rank crashes, the others ignore", rank_killed(signal.SIGSEGV), (139,), "ignores", 0.5),
    Fault("INT", signalled(signal.SIGINT), (130,)),
    Fault("INT twice", signalled(signal.SIGINT, 2), (130,), "ignores"),
    Fault("TERM", signalled(signal.SIGTERM), (143,), "saves"),
    Fault("HUP", signalled(signal.SIGHUP), (129,)),
    Fault("QUIT", signalled(signal.SIGQUIT), (131,)),
    Fault("TERM, ranks ignore it", signalled(signal.SIGTERM), (143,), "ignores", 0.5),
    Fault("TERM, all stopped before", _ranks_stopped, (143,)),
    Fault("kill -9 of the launcher", signalled(signal.SIGKILL), (_KILLED,)),
    Fault("the same, ranks ignore", signalled(signal.SIGKILL), (_KILLED,), "ignores", 0.5),
    Fault("kill -9 of an agent", _agent_killed, (125,), "ignores", 0.5),
    Fault("TERM to an agent", _agent_told, (143,)),
    Fault("kill -9 of a keeper", _keeper_killed, (125,), "ignores", 0.5, REMOTE),
    Fault("kill -9 of keeper and agent", _keeper_and_agent, (125,), "marked", 0.5,
          ("paramiko", "openssh")),
    Fault("an agent is stopped", _agent_stopped, (125,), "ignores", 0.5, REMOTE),
    Fault("kill -9 of launcher and agent", _launcher_and_last_agent, (_KILLED,), "ignores", 0.5,
          REMOTE),
    Fault("kill -9 of sshd", _sshd_killed, (125,), "ignores", 0.5, ("paramiko", "openssh")),
    Fault("the cable is cut", _cut, (125,), "ignores", 0.5, REMOTE),
    Fault("INT at the start", early(signal.SIGINT), (130, -signal.SIGINT), early=True),
    Fault("TERM at the start", early(signal.SIGTERM), (143, -signal.SIGTERM), early=True),
    Fault("kill -9 at the start", early(signal.SIGKILL), (_KILLED,), early=True),
    Fault("kill -9 of an agent at the start", _agent_at_start, _ABORTED, early=True),
    Fault("INT at the end", _failing_then(signal.SIGINT, "launcher"), (139, 130), "saves"),
    Fault("kill -9 at the end", _failing_then(signal.SIGKILL, "launcher"), (_KILLED, 139), "saves"),
    Fault("kill -9 of an agent at the end", _failing_then(signal.SIGKILL, "agent"), (139, 125),
          "saves"),
)  # fmt: skip
BY_NAME: Mapping[str, Fault] = {fault.name: fault for fault in FAULTS}
