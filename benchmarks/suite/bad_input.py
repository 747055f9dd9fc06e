"""Wrong input: how long until the user knows."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import Bench, Case, Quantity, Unmeasured
from harness.contender import ACCELERATE, DEEPSPEED, TORCHRUN, ZLAUNCH, Contender
from harness.process import to_the_end

_TOO_MANY = "1024"  # GPUs: more than any machine has
_QUANTITIES = (Quantity("command to exit"), Quantity("exit code", "", compared=False))


def cases(bench: Bench) -> Iterator[Case]:
    launchers = bench.launchers
    unchecked = "starts as many ranks as it is told to, however few GPUs there are"
    peers = (launchers.contender(name) for name in (TORCHRUN, DEEPSPEED, ACCELERATE))
    yield Case(
        "more GPUs than there are",
        (
            launchers.contender(
                ZLAUNCH, "run", "--num-gpus", _TOO_MANY, bench.script("one_line.py")
            ),
            *(peer.because(unchecked) for peer in peers),
        ),
        _QUANTITIES,
        _measure,
        rounds=7,
    )
    yield Case("script not found, 2 ranks", launchers.all(2, "nowhere.py"), _QUANTITIES, _measure)


def _measure(contender: Contender) -> tuple[float, float]:
    seconds, code = to_the_end(contender)
    if code == 0 or (contender.name == ZLAUNCH and code != 2):
        raise Unmeasured(f"exit code {code}")
    return seconds, code
