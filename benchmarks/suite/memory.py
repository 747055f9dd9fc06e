"""Resident memory of a launcher's own processes while 8 ranks stand still."""

from __future__ import annotations

from collections.abc import Iterator

from harness import proc
from harness.case import Bench, Case, Quantity
from harness.contender import Contender

from suite.standing import RANKS, standing_launcher


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.scratch / "memory"

    def measure(contender: Contender) -> tuple[float, float]:
        with standing_launcher(contender, directory) as own:
            return sum(proc.megabytes(pid, "VmRSS") for pid in own), len(own)

    yield Case(
        f"memory, {RANKS} idle ranks",
        bench.launchers.all(RANKS, bench.script("idle.py"), str(directory)),
        (
            Quantity("launcher's own processes", "MB"),
            Quantity("number of them", "", compared=False),
        ),
        measure,
        rounds=3,
    )
