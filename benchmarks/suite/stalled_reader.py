"""The same flood while nobody reads the console: a pager, a laptop that sleeps."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial

from harness import proc
from harness.case import Bench, Case, Quantity, Value
from harness.contender import ACCELERATE, Contender
from harness.process import running

from suite.flood import RANKS, Flood, make_flood

_PATIENCE = 30.0  # seconds from the command; a run that is read takes a third of it
_EVERY = 0.05  # seconds between two looks


def cases(bench: Bench) -> Iterator[Case]:
    flood = make_flood(bench)
    launchers = bench.launchers
    yield Case(
        f"{RANKS} ranks print {flood.lines:,} lines each, nobody reads",
        (
            flood.zlaunch(),
            flood.torchrun(),
            launchers.deepspeed(RANKS, *flood.command),
            launchers.contender(ACCELERATE).because("hands its output to torchrun"),
        ),
        (
            Quantity("command to all ranks' last line"),
            Quantity("command to exit"),
            Quantity("peak memory of the launcher", "MB"),
        ),
        partial(_measure, flood),
        rounds=2,
    )


def _measure(flood: Flood, contender: Contender) -> tuple[Value, ...]:
    flood.prepare()
    late = f"not within {_PATIENCE:g} s"
    printed: Value = late
    ended: Value = late
    peak = 0.0
    with running(contender, subprocess.PIPE) as process:
        workers = flood.workers(process)
        while process.alive and process.elapsed() < _PATIENCE:
            own = proc.own_processes(process.pid, workers)
            peak = max(peak, sum(proc.megabytes(pid, "VmHWM") for pid in own))
            if printed == late and flood.done():
                printed = process.elapsed()
            time.sleep(_EVERY)
        if not process.alive:
            process.wait()
            ended = process.elapsed()
            printed = ended if printed == late and flood.done() else printed
    if ended != late:
        flood.check_files(contender)
    return printed, ended, peak
