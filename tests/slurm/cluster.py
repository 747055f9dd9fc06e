"""A real Slurm cluster on this machine: munged, slurmctld and some slurmd, in a folder of its own.

Each node is a slurmd with a name, a port and a spool of its own; all of them are this machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

PATH = f"/usr/sbin:/usr/bin:/sbin:/bin:{os.environ.get('PATH', '')}"
BOUND = 60.0  # seconds for what should take a few
# Slurm wants device files for GPUs; nobody opens these, so any will do.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "scancel", "scontrol")


def missing() -> str | None:
    """Why there can be no cluster here, or None."""
    if os.geteuid():
        return "slurmd needs root"
    lacking = [name for name in _PROGRAMS if shutil.which(name, path=PATH) is None]
    return f"needs the packages slurm-wlm and munge (no {', '.join(lacking)})" if lacking else None


class Cluster:
    """Nodes n1 to nN with `gpus[i]` devices that are none; up while it is entered."""

    def __init__(self, gpus: Sequence[int] = (2, 1), cpus: int = 8) -> None:
        self.nodes = tuple(f"n{number + 1}" for number in range(len(gpus)))
        self._gpus, self._cpus = gpus, cpus
        self._undo = ExitStack()
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        with ExitStack() as undo:
            self.folder = Path(tempfile.mkdtemp(prefix="zslurm-"))
            undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.folder.chmod(0o755)
            self._write_files()
            undo.callback(self._stop_all)
            self._start_all()
            self._wait_ready()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    @property
    def env(self) -> dict[str, str]:
        """What points Slurm's commands here."""
        return {"PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def command(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's commands to its end."""
        return subprocess.run(
            words, env={**os.environ, **self.env, **env}, capture_output=True, text=True,
            timeout=BOUND, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def job_state(self, job: str) -> str:
        """`RUNNING`, `COMPLETED`, ...; empty for one that is forgotten."""
        said = self.command("scontrol", "show", "job", job).stdout
        return next((w.partition("=")[2] for w in said.split() if w.startswith("JobState=")), "")

    def wait_idle(self) -> None:
        """Until no job is left and every node takes new ones."""
        end = time.monotonic() + BOUND
        while time.monotonic() < end:
            jobs = self.command("squeue", "-h").stdout.strip()
            states = self.command("sinfo", "-h", "-N", "-p", "main", "-o", "%t").stdout.split()
            if not jobs and states == ["idle"] * len(self.nodes):
                return
            time.sleep(0.1)
        raise TimeoutError(f"jobs: {jobs!r}, nodes: {states}")

    def cancel_all(self) -> None:
        """End whatever a test has left."""
        jobs = self.command("squeue", "-h", "-o", "%A").stdout.split()
        if jobs:
            self.command("scancel", *jobs)
        self.wait_idle()

    def stop_controller(self) -> None:
        """SIGSTOP to slurmctld: it answers nobody until `continue_controller`."""
        self._daemons["slurmctld"].send_signal(signal.SIGSTOP)

    def continue_controller(self) -> None:
        """Let it go on."""
        self._daemons["slurmctld"].send_signal(signal.SIGCONT)

    def kill_node(self, name: str, job: str) -> None:
        """SIGKILL to a slurmd, and to who looks after the steps of a job there."""
        said = self.command("squeue", "-h", "-s", "-j", job, "-o", "%i %N").stdout
        steps = [line.split()[0] for line in said.splitlines() if line.endswith(f" {name}")]
        self._daemons[name].kill()
        self._daemons[name].wait(timeout=BOUND)
        for pid in self._stepds(steps):
            os.kill(pid, signal.SIGKILL)

    def start_node(self, name: str) -> None:
        """Start its slurmd again."""
        self._start(name, "slurmd", "-D", "-N", name)

    def _stepds(self, steps: Sequence[str]) -> list[int]:
        titles = tuple(f"slurmstepd: [{step}]".encode() for step in steps)
        mine = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                titled = (entry / "cmdline").read_bytes().startswith(titles)
                if titled and mine in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    # Files and daemons

    def _write_files(self) -> None:
        ports = free_ports(1 + len(self.nodes))
        folder = self.folder
        for name in ("munge", "state", "log"):
            (folder / name).mkdir(mode=0o755)
        key = folder / "munge" / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        nodes = []
        for name, port, gpus in zip(self.nodes, ports[1:], self._gpus, strict=True):
            (folder / name).mkdir()
            gres = f" Gres=gpu:{gpus}" if gpus else ""
            nodes.append(
                f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 "
                f"Port={port} CPUs={self._cpus} RealMemory=2000{gres}"
            )
        conf = [
            *self._settings(),
            "ClusterName=zlaunchtest",
            "MailProg=/bin/true",
            f"SlurmctldHost={socket.gethostname()}(127.0.0.1)",
            f"SlurmctldPort={ports[0]}",
            "SlurmUser=root",
            "SlurmdUser=root",
            "AuthType=auth/munge",
            # What a job that was requeued waits at least, instead of two minutes.
            f"AuthInfo=socket={folder}/munge/socket,cred_expire=5",
            "CredType=cred/munge",
            f"StateSaveLocation={folder}/state",
            f"SlurmdSpoolDir={folder}/%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid",
            f"SlurmdPidFile={folder}/slurmd-%n.pid",
            f"SlurmctldLogFile={folder}/log/slurmctld.log",
            f"SlurmdLogFile={folder}/log/slurmd-%n.log",
            "SlurmctldDebug=info",
            "SlurmdDebug=info",
            # Nothing of the machine's cgroups is touched; a job's processes are a tree.
            "ProctrackType=proctrack/linuxproc",
            "SlurmdParameters=config_overrides",
            "SelectType=select/cons_tres",
            "GresTypes=gpu",
            "MpiDefault=none",
            "ReturnToService=2",
            "SchedulerParameters=batch_sched_delay=0,sched_interval=1",
            "MinJobAge=300",
            "SwitchType=switch/none",
            "JobCompType=jobcomp/none",
            *nodes,
            # Jobs of main give way to those of urgent, and have GraceTime to leave.
            "PreemptType=preempt/partition_prio",
            "PreemptMode=REQUEUE",
            (
                f"PartitionName=main Nodes={','.join(self.nodes)} Default=YES DefaultTime=10 "
                "PriorityTier=1 GraceTime=20"
            ),
            f"PartitionName=urgent Nodes={','.join(self.nodes)} DefaultTime=10 PriorityTier=2",
        ]
        (folder / "slurm.conf").write_text("\n".join(conf) + "\n")
        gres = [
            f"NodeName={name} Name=gpu File={device}"
            for name, gpus in zip(self.nodes, self._gpus, strict=True)
            for device in _DEVICES[:gpus]
        ]
        (folder / "gres.conf").write_text("\n".join(gres) + "\n")
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")

    def _settings(self) -> list[str]:
        """What another kind of cluster has in another way."""
        return [
            "SelectTypeParameters=CR_CPU",
            "AccountingStorageType=accounting_storage/none",
            "TaskPlugin=task/none",
            "KillWait=5",
        ]

    def _start_all(self) -> None:
        munge = self.folder / "munge"
        self._start(
            "munged", "munged", "--foreground", "--force", f"--socket={munge}/socket",
            f"--key-file={munge}/munge.key", f"--log-file={munge}/log",
            f"--pid-file={munge}/pid", f"--seed-file={munge}/seed",
        )  # fmt: skip
        end = time.monotonic() + BOUND
        while not (munge / "socket").exists():
            self._check("munged")
            if time.monotonic() > end:
                raise TimeoutError("munged makes no socket")
            time.sleep(0.02)
        self._start_accounting()
        self._start("slurmctld", "slurmctld", "-D", "-c")
        for name in self.nodes:
            self._start(name, "slurmd", "-D", "-N", name)

    def _start_accounting(self) -> None:
        """Nothing is kept here beside what slurmctld remembers."""

    def _start(self, name: str, *words: str) -> None:
        # The kernel ends it with the thread that started it: a killed test run leaves none behind.
        with (self.folder / "log" / f"{name}.console").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *words],
                env={**self.env, "HOME": "/root"}, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    def _check(self, name: str) -> None:
        code = self._daemons[name].poll()
        if code is not None:
            raise RuntimeError(f"{name} ended with {code}:\n{self._logs()}")

    def _logs(self) -> str:
        logs = [*self.folder.glob("log/*"), *self.folder.glob("munge/log")]
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')}" for log in logs)

    def _wait_ready(self) -> None:
        end = time.monotonic() + BOUND
        states: list[str] = []
        while time.monotonic() < end:
            for name in self._daemons:
                self._check(name)
            states = self.command("sinfo", "-h", "-N", "-p", "main", "-o", "%t").stdout.split()
            if states == ["idle"] * len(self.nodes):
                return
            time.sleep(0.1)
        raise TimeoutError(f"the nodes are {states}:\n{self._logs()}")

    def _stop_all(self) -> None:
        """Steps first, which outlive a slurmd; then each daemon by its own pid."""
        with suppress(TimeoutError, subprocess.TimeoutExpired):
            self.cancel_all()
        for name in reversed(self._daemons):
            daemon = self._daemons[name]
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons.values():
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(timeout=BOUND)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody has."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
