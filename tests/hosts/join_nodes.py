"""Starts `zlaunch join` on the lab's hosts, or here, and watches what each says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hosts import Host, Lab

TOKEN = "0123456789abcdef-the-token"
HI = "print('hi')"
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
LONG = 180.0  # seconds, for what should take one or two
PORT = 29400


@dataclass(frozen=True)
class Done:
    """How a node ended."""

    code: int
    out: str
    err: str


class Node:
    """One `zlaunch join`; its words go to files, so that they can be read while it runs."""

    def __init__(self, command: list[str], folder: Path, env: Mapping[str, str], name: str) -> None:
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    @property
    def out(self) -> str:
        return self._out.read_text("utf-8", "surrogateescape")

    @property
    def err(self) -> str:
        return self._err.read_text("utf-8", "surrogateescape")

    def until(self, words: str, seconds: float = LONG) -> None:
        """Wait until it has said these words, on either way."""
        end = time.monotonic() + seconds
        while words not in self.out + self.err:
            assert time.monotonic() < end, (words, self.out, self.err)
            time.sleep(0.02)

    def send(self, signum: signal.Signals) -> None:
        self.process.send_signal(signum)

    def end(self, seconds: float = LONG) -> Done:
        code = self.process.wait(seconds)
        assert "Traceback" not in self.err, self.err
        return Done(code, self.out, self.err)


class Nodes:
    """The nodes of one test, which share a folder, a port and a token."""

    def __init__(self, folder: Path, lab: Lab | None = None) -> None:
        self.folder, self.lab = folder, lab
        self.marker = f"zlaunch-test-{os.getpid()}-{folder.name}"
        self.home = folder / "runs"
        self.nodes: list[Node] = []
        self.token(TOKEN)

    def token(self, text: str, name: str = "token", mode: int = 0o600) -> str:
        file = self.folder / name
        file.write_text(text + "\n")
        file.chmod(mode)
        return name

    def start(
        self,
        rank: int | None,
        *args: str,
        code: str = HI,
        nnodes: int = 2,
        options: tuple[str, ...] = ("--cpu", "1"),
        env: Mapping[str, str] | None = None,
        host: Host | None = None,
        rendezvous: str | None = None,
        token: str = "token",
        program: tuple[str, ...] = ("-m", "zlaunch"),
    ) -> Node:
        """Start node `rank` on its host; with None the environment says which one it is."""
        number = len(self.nodes)
        script = f"job{number}.py"
        (self.folder / script).write_text(code)
        line = [sys.executable, *program, "join", "--token-file", token, *options]
        if rank is not None:
            line += ["--nnodes", str(nnodes), "--node-rank", str(rank)]
            line += ["--rendezvous", rendezvous or self.rendezvous]
        line += [script, *args]
        if self.lab is not None:
            line = (host or self.lab.hosts[(rank or 0) % len(self.lab.hosts)]).command(*line)
        clean = {name: value for name, value in os.environ.items() if not _of_a_job(name)}
        full = {**clean, "ZLAUNCH_HOME": str(self.home), "MARK": self.marker, **(env or {})}
        node = Node(line, self.folder, full, f"node-{number}")
        self.nodes.append(node)
        return node

    @property
    def rendezvous(self) -> str:
        return f"{self.lab.hosts[0].address if self.lab else '127.0.0.1'}:{PORT}"

    def run(self, first: Node, second: Node) -> tuple[Done, Done]:
        return first.end(), second.end()

    def nothing_left(self, seconds: float = 5.0) -> None:
        assert self.lab is not None
        end = time.monotonic() + seconds
        while (left := self.lab.processes(self.marker)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left

    def close(self) -> None:
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.kill()
                node.process.wait(LONG)
        if self.lab is not None:
            self.nothing_left()


@contextmanager
def nodes_of(folder: Path, lab: Lab | None = None) -> Iterator[Nodes]:
    nodes = Nodes(folder, lab)
    try:
        yield nodes
    finally:
        nodes.close()


def _of_a_job(name: str) -> bool:
    names = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"}
    return name in names or name.startswith(("PET_", "SLURM_", "JOB_COMPLETION", "SSH_"))
