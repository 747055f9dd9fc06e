"""What is left alive after a fault: ranks, and the children that they had."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from harness.case import Bench, Case, Quantity, Unmeasured, Value
from harness.contender import ZLAUNCH, Contender
from harness.family import Family
from harness.process import Running, running

_RANKS = 2
_PATIENCE = 10.0  # seconds for the launcher to end
_AFTER = 3.0  # seconds from its end to the count

Strike = Callable[[Running, Family], None]


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.scratch / "faults"
    directory.mkdir()
    command = (bench.script("family.py"), str(directory))
    launchers = bench.launchers
    contenders = (
        launchers.zlaunch(_RANKS, *command),
        launchers.torchrun(_RANKS, *command),
        launchers.deepspeed(_RANKS, *command),
    )
    for name, strike in FAULTS.items():
        yield Case(
            name,
            contenders,
            (
                Quantity(f"alive {_AFTER:g} s after the launcher's end", ""),
                Quantity("fault to launcher's exit"),
                Quantity("launcher's exit code", "", compared=False),
            ),
            partial(_measure, directory, strike),
            rounds=1,
        )


def _measure(directory: Path, strike: Strike, contender: Contender) -> tuple[Value, ...]:
    late = f"not within {_PATIENCE:g} s"
    with Family(directory, _RANKS) as family, running(contender) as process:
        family.wait_up(process)
        time.sleep(0.5)  # launchers that install their handlers late have them now
        begun = time.monotonic()
        strike(process, family)
        try:
            code: Value = process.wait(process.elapsed() + _PATIENCE)
            took: Value = time.monotonic() - begun
        except Unmeasured:
            code = took = late
        else:
            time.sleep(_AFTER)
        ranks, children = family.alive()
    if contender.name == ZLAUNCH and (ranks or children):
        raise Unmeasured(f"{ranks} ranks and {children} children are left")
    return _words(ranks, children), took, code


def _words(ranks: int, children: int) -> str:
    if not ranks + children:
        return "nothing"
    parts = [f"{ranks} rank{'s' if ranks != 1 else ''}"] if ranks else []
    parts += [f"{children} child{'ren' if children != 1 else ''}"] if children else []
    return ", ".join(parts)


def _clean(_process: Running, family: Family) -> None:
    family.end("go", 0)


def _fails(_process: Running, family: Family) -> None:
    family.end("go-1", 3)


def _rank_killed(_process: Running, family: Family) -> None:
    os.kill(family.ranks[1], signal.SIGKILL)


def _agent_killed(process: Running, family: Family) -> None:
    (agent,) = family.parents
    if agent == process.pid:
        raise Unmeasured("has no process between launcher and ranks")
    os.kill(agent, signal.SIGKILL)


def _launcher(signum: int, times: int = 1) -> Strike:
    def strike(process: Running, _family: Family) -> None:
        for number in range(times):
            time.sleep(0.5 * bool(number))
            if process.alive:
                os.kill(process.pid, signum)

    return strike


FAULTS: dict[str, Strike] = {
    "all ranks end with 0": _clean,
    "a rank exits with 3": _fails,
    "kill -9 of a rank": _rank_killed,
    "INT": _launcher(signal.SIGINT),
    "INT twice": _launcher(signal.SIGINT, 2),
    "TERM": _launcher(signal.SIGTERM),
    "HUP": _launcher(signal.SIGHUP),
    "QUIT": _launcher(signal.SIGQUIT),
    "kill -9 of the launcher": _launcher(signal.SIGKILL),
    "kill -9 of the agent": _agent_killed,
}
