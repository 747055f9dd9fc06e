"""A flood of output, tagged on the console and kept in files, into a reader that keeps up."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial

from harness.case import Bench, Case, Quantity, Unmeasured
from harness.contender import ACCELERATE, DEEPSPEED, ZLAUNCH, Contender
from harness.process import running

from suite.flood import RANKS, Flood, make_flood


def cases(bench: Bench) -> Iterator[Case]:
    flood = make_flood(bench)
    contender = bench.launchers.contender
    yield Case(
        f"{RANKS} ranks print {flood.lines:,} lines each",
        (
            flood.zlaunch(),
            flood.torchrun(),
            contender(DEEPSPEED).because(
                "tags no lines; a file per rank takes them off the screen"
            ),
            contender(ACCELERATE).because("hands its output to torchrun"),
        ),
        (
            Quantity("command to exit"),
            Quantity("first to last line"),
            Quantity("CPU time of all processes"),
            Quantity("lines torn, untagged or lost on the console", "", compared=False),
        ),
        partial(_measure, flood),
        rounds=3,
    )


def _measure(flood: Flood, contender: Contender) -> tuple[float, ...]:
    flood.prepare()
    pieces: list[bytes] = []
    first = last = None
    with running(contender, subprocess.PIPE) as process:
        for data in process.read():
            pieces.append(data)
            if b"xxxx" in data:
                last = process.elapsed()
                first = first or last
        code = process.wait()
        seconds, cpu = process.elapsed(), process.cpu_seconds
    if code != 0 or first is None or last is None:
        raise Unmeasured(f"exit code {code}")
    flood.check_files(contender)
    damaged = flood.damaged_lines(b"".join(pieces))
    if damaged and contender.name == ZLAUNCH:
        raise Unmeasured(f"{damaged:,} lines torn, untagged or lost on the console")
    return seconds, last - first, cpu, damaged
