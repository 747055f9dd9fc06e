"""Launches on a cluster: a folder, a home for runs, and the scripts that several tests run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import BOUND, Cluster

LONG = 100.0  # seconds, for what should take a few
_TOOL = (sys.executable, "-m", "zlaunch")
WAIT = """
import signal, sys, time
def end(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGUSR1, lambda *_: print("warned", flush=True))
print("up", flush=True)
time.sleep(600)
"""
FAIL = """
import os, time
print("up", flush=True)
if os.environ["RANK"] == "3":
    time.sleep(0.5)
    raise SystemExit(7)
time.sleep(600)
"""


def need(reason: str) -> None:
    """Skip where a cluster lacks something; in CI that is a failure."""
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)


class Site:
    """A folder with scripts, a home for runs, and a marker in all environments."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.marker = f"zlaunch-test-{os.getpid()}-{folder.name}"
        self.env = {
            **os.environ,
            **cluster.env,
            "ZLAUNCH_HOME": str(folder / "runs"),
            "ZLAUNCH_TEST_MARK": self.marker,
        }
        self._processes: list[subprocess.Popen[str]] = []

    def write(self, name: str, text: str) -> str:
        """Write a file here, and return its path."""
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def salloc(
        self, *words: str, ask: tuple[str, ...] = ("-N2",), **env: str
    ) -> subprocess.Popen[str]:
        """Start `zlaunch WORDS` in an allocation."""
        process = subprocess.Popen(
            ["salloc", "--quiet", *ask, *_TOOL, *words],
            cwd=self.folder, env={**self.env, **env}, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def mind(self, process: subprocess.Popen[str]) -> None:
        """End it with the test, and do not count it for what is left."""
        self._processes.append(process)

    def tool(self, *words: str) -> tuple[int, str, str]:
        """Type `zlaunch WORDS` on the machine of the nodes: exit code and output."""
        done = subprocess.run(
            [*_TOOL, *words], cwd=self.folder, env=self.env, capture_output=True, text=True,
            timeout=LONG, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def run(self, *words: str, ask: tuple[str, ...] = ("-N2",), **env: str) -> tuple[int, str, str]:
        """The same, to its end: exit code and output."""
        process = self.salloc(*words, ask=ask, **env)
        out, err = process.communicate(timeout=LONG)
        return process.returncode, out, err

    def sbatch(self, *words: str, ask: tuple[str, ...] = ("-N2",)) -> str:
        """Submit a batch script that becomes `zlaunch WORDS`; return the job."""
        line = " ".join((*_TOOL, *words))
        script = self.write("batch.sh", f"#!/bin/sh\nexec {line}\n")
        done = subprocess.run(
            ["sbatch", "--parsable", "--output=%j.out", *ask, script],
            cwd=self.folder, env=self.env, capture_output=True, text=True, check=True,
            timeout=BOUND, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.stdout.strip()

    def output(self, job: str) -> str:
        """What the batch script and all it started have printed so far."""
        path = self.folder / f"{job}.out"
        return path.read_text() if path.exists() else ""

    def await_output(self, job: str, word: str, count: int = 1) -> str:
        """Wait until the output has this word so often, and return it."""
        end = time.monotonic() + LONG
        while (text := self.output(job)).count(word) < count:
            assert time.monotonic() < end, text
            time.sleep(0.05)
        return text

    def await_end(self, job: str) -> str:
        """Wait until the job is over, and return its state."""
        end = time.monotonic() + LONG
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
        while (state := self.cluster.job_state(job)) not in over:
            assert time.monotonic() < end, state
            time.sleep(0.1)
        return state

    def up(self, process: subprocess.Popen[str], ranks: int, word: str = "up") -> None:
        """Wait until so many ranks have said a word."""
        assert process.stdout is not None
        for _ in range(ranks):
            line = process.stdout.readline()
            assert line.rstrip().endswith(f"| {word}"), line

    def job(self) -> str:
        """The only job that runs."""
        (job,) = self.cluster.command("squeue", "-h", "-o", "%A").stdout.split()
        return job

    def alive(self) -> list[int]:
        """Who has the marker in its environment, save the commands started here."""
        mine = {process.pid for process in self._processes if process.poll() is None}
        return [pid for pid in _marked(self.marker) if pid not in mine]

    def nothing_left(self, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while (left := self.alive()) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]

    def close(self) -> None:
        self.cluster.cancel_all()
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=BOUND)
        self.nothing_left()


def _marked(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def is_srun(pid: int, node: str) -> bool:
    """Whether it is the srun of a node."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0] == b"srun" and f"--nodelist={node}".encode() in words
