"""The agent's part in taking stacks: the private directory, the workers' handler, the answers.

The looking itself (`agent/stack_look.py`) is done aside.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

from zlaunch.agent.aside import Aside
from zlaunch.agent.private_directory import PrivateDirectory
from zlaunch.run.messages import Event, Stacks, TakeStacks, Usage
from zlaunch.run.orders import DUMP_PATIENCE
from zlaunch.system.loop import Loop

_LATE = 1.0  # seconds beyond its own limit until a look is given up
_NO_HANDLER = "its Python stacks cannot be taken: "


class StackTaker:
    """Gives workers the handler, and says where they are."""

    def __init__(self, loop: Loop, send: Callable[[Event], None]) -> None:
        self._loop = loop
        self._send = send
        self._directory = PrivateDirectory()
        self._ready = False
        self._cpu: dict[int, tuple[float, float]] = {}  # at the last look: when, and what was used

    def prepare(self, handler: str) -> None:
        """Lay the handler down where workers will find it; no room for it is no reason to end.

        Once: the workers of the next attempt find it there.
        """
        self._cpu.clear()
        if handler and not self._directory.path:
            with contextlib.suppress(OSError, ValueError):
                self._directory.make()
                self._directory.write("sitecustomize.py", handler)
                self._ready = os.pathsep not in self._directory.path

    @property
    def handler(self) -> str:
        """The directory in which it lies; empty where there is none."""
        return self._directory.path if self._ready else ""

    def dressed(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return a worker's environment with the handler in it."""
        if not self._ready:
            return dict(env)
        here = self._directory.path
        own = env.get("PYTHONPATH")
        if own:
            return {**env, "PYTHONPATH": f"{here}{os.pathsep}{own}"}
        # A slash tells the handler that the variable was there, and empty.
        return {**env, "PYTHONPATH": here if own is None else f"{here}/"}

    def take(self, order: TakeStacks, workers: Mapping[int, tuple[int, Mapping[str, str]]]) -> None:
        """Answer for each rank; `workers` maps it to its pid and its own environment."""
        look = partial(_look, order, workers, self._directory.path, dict(self._cpu))
        patience = order.within + _LATE + (DUMP_PATIENCE if order.how == "thoroughly" else 0.0)
        Aside(self._loop, look, patience, partial(self._answer, order, workers))

    def _answer(
        self, order: TakeStacks, workers: Mapping[int, Any], found: Mapping[str, Any] | None
    ) -> None:
        now = time.time()
        if found is None or "error" in found:
            why = found["error"] if found else f"no answer within {order.within:g} s"
            found = {"why": _NO_HANDLER + why}
        for rank in workers:
            fields = dict(found.get(str(rank), {"why": found.get("why", "")}))
            usage = Usage(**fields.pop("usage", {}))
            self._cpu[rank] = now, usage.cpu
            lists: dict[str, Any] = {
                name: tuple(fields.pop(name, ())) for name in ("texts", "flight")
            }
            self._send(Stacks(rank, order.ask, now, usage=usage, **lists, **fields))

    def remove(self) -> None:
        """Take the directory away, with what workers have left in it."""
        self._directory.remove()


def _look(
    order: TakeStacks,
    workers: Mapping[int, Any],
    directory: str,
    before: Mapping[int, tuple[float, float]],
) -> dict[str, Any]:
    from zlaunch.agent.stack_look import look  # the child alone pays for what it imports

    return look(workers, directory, order, before)
