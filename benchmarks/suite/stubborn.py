"""8 ranks that ignore TERM, and a grace of 2 s: how long until they are gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from harness.case import Bench, Case, Quantity, Value
from harness.contender import Contender
from harness.family import Family
from harness.process import running

_RANKS = 8
_GRACE = "2"
_PATIENCE = 40.0  # seconds


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.scratch / "stubborn"
    directory.mkdir()
    command = (bench.script("family.py"), str(directory), "stubborn")
    launchers = bench.launchers
    yield Case(
        f"{_RANKS} ranks ignore TERM, the launcher gets it, grace {_GRACE} s",
        (
            launchers.contender(
                *("zlaunch", "run", "--cpu", str(_RANKS), "--recipe", "ddp", "--grace", _GRACE),
                *command,
            ),
            launchers.torchrun(_RANKS, "--shutdown-timeout", _GRACE, *command),
            launchers.deepspeed(_RANKS, *command),  # 30 s a rank, which no option changes
        ),
        (Quantity("TERM to the end of the last rank"), Quantity("with its last child")),
        partial(_measure, directory),
        rounds=3,
    )


def _measure(directory: Path, contender: Contender) -> tuple[Value, ...]:
    late = f"not within {_PATIENCE:g} s"
    ranks_gone: Value = late
    all_gone: Value = late
    with Family(directory, _RANKS) as family, running(contender) as process:
        family.wait_up(process)
        time.sleep(0.5)
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGTERM)
        while (now := time.monotonic() - begun) < _PATIENCE and all_gone == late:
            ranks, children = family.alive()
            if not ranks and ranks_gone == late:
                ranks_gone = now
            if not ranks and not children:
                all_gone = now
            time.sleep(0.01)
    return ranks_gone, all_gone
