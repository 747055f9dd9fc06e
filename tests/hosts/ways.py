"""The same launch of two nodes with 3 and 2 ranks on each way: local (one node), SSH, join."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from hosts import Lab
from namespaces import BOUND

WAYS = ("local", "paramiko", "openssh", "join")
RANKS = (3, 2)
LONG = 180.0  # seconds, for what should take a few
_TOKEN = "0123456789abcdef-the-token"
_TOOL = (sys.executable, "-m", "zlaunch")


class Launch:
    """One run that was started; `process` is its launcher."""

    def __init__(self, processes: list[subprocess.Popen[bytes]]) -> None:
        self.processes = processes
        self.process, *self.others = processes

    def up(self, word: bytes = b"up") -> None:
        """Wait until every rank has said a word."""
        out = self.process.stdout
        assert out is not None
        for _ in range(sum(RANKS)):
            line = out.readline()
            assert line.rstrip().endswith(b"| " + word), line

    def end(self) -> tuple[int, str, str]:
        """Exit code and output of the launcher; the other nodes end with the same code."""
        out, err = self.process.communicate(timeout=LONG)
        code = self.process.returncode
        for other in self.others:
            other.communicate(timeout=LONG)
            assert other.returncode == (code if code >= 0 else 125)
        out = out or b""  # where it has a terminal for that
        return code, out.decode(errors="surrogateescape"), err.decode(errors="surrogateescape")


class Way:
    """Starts runs on one of the ways, from a directory, with a marker in all environments."""

    def __init__(self, name: str, lab: Lab, folder: Path, ranks: tuple[int, int] = RANKS) -> None:
        self.name, self.lab, self.folder = name, lab, folder
        self._ranks = ranks
        self.marker = f"zlaunch-test-{os.getpid()}-{folder.name}"
        self.home = folder / "runs"
        self.nodes = 1 if name == "local" else 2
        self._env = {**lab.client.environment(), "ZLAUNCH_HOME": str(self.home)}
        self._launches: list[Launch] = []
        (folder / "token").write_text(_TOKEN)
        (folder / "token").chmod(0o600)

    def start(
        self,
        script: str,
        *args: str,
        options: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
    ) -> Launch:
        """Start the script, which is in `cwd` (else the folder).

        `stdin` and `stdout` are the launcher's.
        """
        full = {**self._env, "WANDB_MARK": self.marker, **(env or {})}
        words = (*options, script, *args)
        lines = {"local": self._local, "join": self._join}.get(self.name, self._ssh)(*words)
        launch = Launch(
            [
                subprocess.Popen(
                    line, cwd=cwd or self.folder, env=full,
                    stdin=stdin if line is lines[0] else subprocess.DEVNULL,
                    stdout=stdout if line is lines[0] else subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                for line in lines
            ]
        )  # fmt: skip
        self._launches.append(launch)
        return launch

    def run(self, code: str, *args: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        """Run this source to its end."""
        (self.folder / "job.py").write_text(code)
        return self.start("job.py", *args, options=options).end()

    def _local(self, *words: str) -> list[list[str]]:
        return [[*_TOOL, "run", "--cpu", str(sum(self._ranks)), *words]]

    def _ssh(self, *words: str) -> list[list[str]]:
        pairs = zip(self.lab.hosts, self._ranks, strict=False)
        hosts = ",".join(f"{host.name}:{ranks}" for host, ranks in pairs)
        where = ("--ssh", self.name, "--hosts", hosts, "--device", "cpu")
        return [[*_TOOL, "multinode", *where, *words]]

    def _join(self, *words: str) -> list[list[str]]:
        where = ("--nnodes", "2", "--rendezvous", f"{self.lab.hosts[0].address}:29400")
        token = ("--token-file", str(self.folder / "token"))
        return [
            host.command(
                *_TOOL,
                "join",
                *where,
                *token,
                "--node-rank",
                str(rank),
                "--cpu",
                str(ranks),
                *words,
            )
            for rank, (host, ranks) in enumerate(zip(self.lab.hosts, self._ranks, strict=False))
        ]

    def log(self, rank: int) -> bytes:
        """What a rank wrote, as the only run kept it."""
        (path,) = self.home.glob(f"runs/*/logs/rank-{rank}.log")
        return path.read_bytes()

    def alive(self) -> list[int]:
        """Who has the marker in its environment, here or on a host, save our commands."""
        mine = {process.pid for launch in self._launches for process in launch.processes}
        return [pid for pid in marked(self.marker) if pid not in mine]

    def agents(self, launch: Launch) -> list[int]:
        """Agents and keepers that are there by now, in the order in which they came."""
        if self.name in ("local", "join"):
            mine = {process.pid for process in launch.processes}
            return [pid for pid in _all() if _parent(pid) in mine and _is_agent(pid)]
        return [p for host in self.lab.hosts for p in host.namespace.pids() if _is_agent(p)]

    def nothing_left(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := self.alive()) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left

    def close(self) -> None:
        for launch in self._launches:
            for process in launch.processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                process.communicate(timeout=BOUND)
        self.nothing_left(5.0)


def marked(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _all() -> list[int]:
    return sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _is_agent(pid: int) -> bool:
    """An interpreter that was started as agents are, or has joined."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return {b"-I", b"-S"} <= set(words) or (b"zlaunch" in words and b"enter" not in words)
