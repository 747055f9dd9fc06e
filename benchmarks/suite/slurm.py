"""Start-up in an allocation of Slurm, two nodes that are both this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.case import Bench, Case, Quantity, Unmeasured
from harness.contender import ZLAUNCH, Contender
from harness.process import LIMIT

_TESTS = Path(__file__).parents[2] / "tests" / "slurm"
_LINE = re.compile(rb"first line of rank (\d+)\n")
_RANKS = 4
_BARE = "srun alone"


def cases(bench: Bench) -> Iterator[Case]:
    title, quantities = f"Slurm, 2 nodes x {_RANKS // 2} ranks", _QUANTITIES
    reason = _cluster().missing()
    if reason:
        nobody = tuple(Contender(name).because(reason) for name in (ZLAUNCH, _BARE))
        yield Case(title, nobody, quantities, _measure)
        return
    with _cluster().Cluster() as there, _job(there) as job:
        script = bench.script("one_line.py")
        start = ("multinode", "--cpu", "2", "--recipe", "ddp", script)
        zlaunch = bench.launchers.contender(ZLAUNCH, *start)
        zlaunch = replace(zlaunch, env={**zlaunch.env, **job})
        yield Case(title, (zlaunch, _bare(job, script)), quantities, _measure, rounds=5)


_QUANTITIES = (Quantity("command to last rank's first line"), Quantity("command to exit"))


def _bare(job: Mapping[str, str], script: str) -> Contender:
    """No launcher: the script as Slurm's own tasks, for what nobody can avoid."""
    task = 'RANK=$SLURM_PROCID exec "$0" "$1"'
    step = ("srun", "--overlap", "-N2", f"-n{_RANKS}", "--mpi=none")
    return Contender(_BARE, (*step, "sh", "-c", task, sys.executable, script), job)


@contextmanager
def _job(there: Any) -> Iterator[Mapping[str, str]]:
    """An allocation of both nodes without a shell, as the environment that is in it."""
    granted = there.command("salloc", "--no-shell", "-N2", f"-n{_RANKS}")
    number = re.search(r"Granted job allocation (\d+)", granted.stderr)
    if number is None:
        raise Unmeasured(granted.stderr)
    try:
        yield {**there.env, "SLURM_JOB_ID": number[1], "SLURM_JOB_NODELIST": "n[1-2]"}
    finally:
        there.command("scancel", number[1])


def _measure(contender: Contender) -> tuple[float, float]:
    """Seconds to the last first line and to the exit.

    The harness would end what descends from it, and so do steps of Slurm here.
    """
    text, shown, started = b"", None, time.monotonic()
    with subprocess.Popen(
        contender.argv, env=contender.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), 1 << 16):
            text += data
            if shown is None and len(set(_LINE.findall(text))) == _RANKS:
                shown = time.monotonic() - started
        code = process.wait(timeout=LIMIT)
    ended = time.monotonic() - started
    if shown is None or code != 0:
        last = text.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unmeasured(f"exit code {code}, not all first lines; the last line is '{last}'")
    return shown, ended


def _cluster() -> Any:
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))
    return import_module("cluster")
