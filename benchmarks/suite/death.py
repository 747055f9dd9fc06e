"""A rank dies: how long until the launcher has stopped the others and is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from harness.case import Bench, Case, Quantity, Unmeasured
from harness.contender import ZLAUNCH, Contender
from harness.process import running

_THEIR_CODE = 3


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.scratch / "death"
    directory.mkdir()
    yield Case(
        "rank 1 of 2 exits with 3",
        bench.launchers.all(2, bench.script("die.py"), str(directory)),
        (
            Quantity("death to launcher's exit"),
            Quantity("launcher's exit code", "", compared=False),
        ),
        lambda contender: _measure(contender, directory),
    )


def _measure(contender: Contender, directory: Path) -> tuple[float, float]:
    for path in directory.iterdir():
        path.unlink()
    with running(contender) as process:
        code = process.wait()
        ended = time.time()
    died = directory / "died-1"
    if not died.exists() or (contender.name == ZLAUNCH and code != _THEIR_CODE):
        raise Unmeasured(f"exit code {code}")
    return ended - float(died.read_text()), code
