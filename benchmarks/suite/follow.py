"""Following a run that prints a million lines, against `tail -f` of coreutils on the same files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness.case import Bench, Case, Quantity, Unmeasured
from harness.contender import ZLAUNCH, Contender
from harness.proc import descendants
from harness.process import LIMIT, Running, running

from suite.flood import RANKS

TAIL = "tail -f"
_ALL, _FEW = 250_000, 25_000  # lines of a rank
_SLOW, _QUICK = 20.0, 2.0  # seconds that the ranks take


def cases(bench: Bench) -> Iterator[Case]:
    lines, seconds = (_FEW, _QUICK) if bench.quick else (_ALL, _SLOW)
    tail = Contender(TAIL, cannot=None if shutil.which("tail") else "not installed")
    contenders = (bench.launchers.contender(ZLAUNCH), tail)
    for title, pace in ((f"within {seconds:g} s", seconds), ("as fast as they can", 0.0)):
        yield Case(
            f"followed: {RANKS} ranks print {lines:,} lines each, {title}",
            contenders,
            (
                Quantity("its CPU time"),
                Quantity("run's start to last line", "s"),
                Quantity("lines missing", "", compared=False),
            ),
            partial(_measure, bench, lines, pace),
            rounds=3,
        )


def _measure(bench: Bench, lines: int, pace: float, contender: Contender) -> tuple[float, ...]:
    home = bench.launchers.home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    command = (bench.script("paced.py"), str(lines), str(pace))
    run = bench.launchers.zlaunch(RANKS, "-q", *command)
    with running(run) as launcher:
        logs = _logs(home / "zlaunch", launcher)
        follower = Contender(contender.name, _command(bench, contender, logs), run.env)
        with running(follower, subprocess.PIPE, beside=descendants(os.getpid())) as process:
            count, at = _count_lines(process, RANKS * lines)
            launcher.wait()
            if contender.name == TAIL:
                os.kill(process.pid, signal.SIGTERM)  # it knows of no end
            process.wait()
            cpu = process.cpu_seconds
    missing = RANKS * lines - count
    if missing and contender.name == ZLAUNCH:
        raise Unmeasured(f"{missing:,} lines are missing")
    return cpu, at - launcher.started, missing


def _logs(home: Path, launcher: Running) -> list[Path]:
    """Wait until the run has its directory, and return its logs."""
    while not (home / "latest").exists():
        if not launcher.alive or launcher.elapsed() > LIMIT:
            raise Unmeasured("the run did not start")
        time.sleep(0.005)
    record = json.loads((home / "latest" / "run.json").read_text())
    folder = home / "runs" / record["id"] / "logs"
    return [folder / f"rank-{rank}.log" for rank in range(RANKS)]


def _command(bench: Bench, contender: Contender, logs: list[Path]) -> tuple[str, ...]:
    """Both show all from the first line on; `zlaunch` tags each line too."""
    if contender.name == ZLAUNCH:
        return bench.launchers.contender(ZLAUNCH, "logs", "tail", "-f", "-n", "all").argv
    return ("tail", "-q", "-f", "-n", "+1", *map(str, logs))


def _count_lines(process: Running, wanted: int) -> tuple[int, float]:
    """Read until all lines are there, or no more come; how many, and when the last did."""
    count, at = 0, time.monotonic()
    for data in process.read():
        count += data.count(b"\n")
        at = time.monotonic()
        if count >= wanted:
            break
    return count, at
