"""`--help`: what it costs to ask."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import Bench, Case, Quantity, Unmeasured
from harness.contender import ACCELERATE, DEEPSPEED, TORCHRUN, ZLAUNCH, Contender
from harness.process import to_the_end


def cases(bench: Bench) -> Iterator[Case]:
    contender = bench.launchers.contender
    yield Case(
        "`--help`",
        (
            contender(ZLAUNCH, "--help"),
            contender(TORCHRUN, "--help"),
            contender(DEEPSPEED, "--help"),
            contender(ACCELERATE, "launch", "--help"),
        ),
        (Quantity("command to exit"),),
        _measure,
        rounds=7,
    )


def _measure(contender: Contender) -> tuple[float]:
    seconds, code = to_the_end(contender)
    if code != 0:
        raise Unmeasured(f"exit code {code}")
    return (seconds,)
