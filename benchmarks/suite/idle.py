"""What a launcher's own processes do while 8 ranks stand still: nothing, it is hoped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from harness import proc
from harness.case import Bench, Case, Quantity
from harness.contender import Contender

from suite.standing import RANKS, standing_launcher


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.scratch / "idle"
    seconds = 2 if bench.quick else 10

    def measure(contender: Contender) -> tuple[float, float]:
        with standing_launcher(contender, directory) as own:
            cpu, switches = _used(own)
            time.sleep(seconds)
            cpu_after, switches_after = _used(own)
        return (cpu_after - cpu) * 1000, switches_after - switches

    yield Case(
        f"{RANKS} idle ranks for {seconds} s",
        bench.launchers.all(RANKS, bench.script("idle.py"), str(directory)),
        (Quantity("CPU time of the launcher", "ms"), Quantity("times it woke up", "")),
        measure,
        rounds=3,
    )


def _used(pids: Iterable[int]) -> tuple[float, int]:
    pids = list(pids)
    return sum(map(proc.cpu_seconds, pids)), sum(map(proc.voluntary_switches, pids))
