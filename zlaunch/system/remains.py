"""What a run leaves on this machine, whoever its parents are by now: ended, or named.

Three nets, one behind the other: the control group, where there is one; our children, to which
all orphans come; and whoever carries the run's mark in its environment.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from zlaunch.system.marked import end_marked
from zlaunch.system.scope import Scope, end_scope
from zlaunch.system.spawn import SWEEP, sweep


def end_remains(
    mark: Collection[str], scope: Scope | None = None, known: Collection[int] = ()
) -> list[int]:
    """Kill what is left of a node, within seconds; return what does not die, save the `known`."""
    deadline = time.monotonic() + SWEEP
    left = scope.empty(deadline, known) if scope is not None else []
    left += sweep(known, deadline)
    left += end_marked(mark, deadline, known)
    return sorted(set(left))


def end_of_dead_agent(mark: Collection[str]) -> None:
    """The same, by who stood beside an agent that was killed."""
    if mark:
        end_scope(scope_name(mark), time.monotonic() + SWEEP)
    sweep()
    end_marked(mark, time.monotonic() + SWEEP)


def scope_name(mark: Collection[str]) -> str:
    """The values of the mark."""
    return "-".join(entry.partition("=")[2] for entry in mark)


def where_it_hangs(pid: int) -> tuple[str, str]:
    """The state of a process and the place in the kernel where it sleeps, empty if unknown."""
    state = _file(pid, "stat").rpartition(")")[2].split()[:1]
    return "".join(state), _file(pid, "wchan").strip("0\n ")


def name_of(pid: int) -> str:
    """The name that `ps` shows."""
    return _file(pid, "comm").strip()


def _file(pid: int, name: str) -> str:
    # None of these files waits for the process, as its environment and command line may do.
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
