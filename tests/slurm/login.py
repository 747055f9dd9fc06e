"""A login node: commands typed on a machine that is none of the cluster's, by its name at least.

It shares files and kernel with the nodes. So what is tried there is what zlaunch does where it
takes the launcher to be on another machine: it goes by files and by Slurm.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from slurm_site import LONG, Site

_ELSEWHERE = ("unshare", "--uts", "sh", "-c", 'hostname login && exec "$@"', "sh")
_PROBE = ("unshare", "--uts", "true")
_TOOL = (sys.executable, "-m", "zlaunch")


class Login:
    """Types zlaunch's commands there; `home` is where the runs are."""

    def __init__(self, site: Site) -> None:
        self.site, self.cluster = site, site.cluster
        self.runs = site.folder / "runs" / "runs"
        # A container may forbid names of one's own; then it is the same machine.
        may = subprocess.run(_PROBE, capture_output=True, check=False).returncode == 0
        self._elsewhere = _ELSEWHERE if may else ()

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Start `zlaunch WORDS`."""
        settings = [f"{name}={value}" for name, value in env.items()]
        process = subprocess.Popen(
            [*self._elsewhere, "env", *settings, *_TOOL, *words],
            cwd=self.site.folder, env=self.site.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.site.mind(process)
        return process

    def type(self, *words: str, **env: str) -> tuple[int, str, str]:
        """The same, to its end: exit code and output."""
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=LONG)
        return process.returncode, out, err

    def submit(self, *words: str, **env: str) -> str:
        """Submit a run, and return its id."""
        code, out, err = self.type("submit", *words, **env)
        assert code == 0, err
        return out.strip()

    def status(self, run: str) -> dict[str, Any]:
        code, out, err = self.type("status", run, "--json")
        assert code == 0, err
        return dict(json.loads(out))

    def job(self, run: str) -> str:
        return str(self.record(run)["submitted"]["job"])

    def job_facts(self, run: str) -> str:
        """What Slurm says of the job, once that is over."""
        self.site.await_end(self.job(run))
        return self.cluster.command("scontrol", "show", "job", self.job(run)).stdout

    def record(self, run: str) -> dict[str, Any]:
        return dict(json.loads((self.runs / run / "run.json").read_text()))

    def console(self, run: str) -> str:
        return (self.runs / run / "console.log").read_text()

    def log(self, run: str, rank: int, attempt: int = 0) -> str:
        name = f"rank-{rank}.{attempt}.log" if attempt else f"rank-{rank}.log"
        path = self.runs / run / "logs" / name
        return path.read_text() if path.exists() else ""

    def await_console(self, run: str, word: str, count: int = 1) -> str:
        """Wait until console.log has this word so often, and return it."""
        end = time.monotonic() + LONG
        while (text := self.console(run)).count(word) < count:
            assert time.monotonic() < end, text
            time.sleep(0.05)
        return text

    def end(self, run: str) -> int:
        """Wait for the end of a run; return its exit code."""
        code, _, err = self.type("wait", run, "--timeout", str(LONG))
        assert code != 124, err + self.console(run)
        if code:  # shown where a test did not expect it
            print(
                f"run {run} ended with {code}: {self.record(run)['outcome']}\n{self.console(run)}"
            )
        return code

    def left(self) -> list[Path]:
        """All run directories."""
        return sorted(self.runs.iterdir()) if self.runs.exists() else []
