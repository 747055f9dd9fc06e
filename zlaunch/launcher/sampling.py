"""What the ranks use: asked of the agents now and then, and often while somebody looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from zlaunch.launcher.agents import Agents
from zlaunch.run.messages import Started, TakeUsage, Used
from zlaunch.run.metrics import SYSTEM, Metric
from zlaunch.system.loop import Loop, Timer

_FIRST = 3.0  # seconds after the start: a short run is seen once
_SELDOM = 15.0  # seconds
_OFTEN = 1.0
_NO_ANSWER = 10.0  # seconds after which an agent is asked again all the same


class Sampling:
    """Asks, and makes metrics of the answers.

    Nodes that are pinged anyway are asked together with a ping, so that nobody wakes up for it.
    """

    def __init__(self, loop: Loop, agents: Agents, on_metric: Callable[[Metric], None]) -> None:
        self._loop = loop
        self._agents = agents
        self._on_metric = on_metric
        self._nodes: dict[int, float] = {}  # when each was asked last
        self._waiting: set[int] = set()
        self._cpu: dict[int, tuple[float, float]] = {}  # when, by the node's clock, and how much
        self._attempt = 0
        self._lookers = 0
        self._timer: Timer | None = None
        agents.on_beat = self._beat

    def begin(self, node_ranks: Mapping[int, object] | set[int], attempt: int) -> None:
        """The workers of an attempt are about to start."""
        self._attempt = attempt
        self._cpu.clear()
        self._waiting.clear()
        self._nodes = dict.fromkeys(node_ranks, time.monotonic() - _SELDOM)
        self._next(_OFTEN if self._lookers else _FIRST)

    def end(self) -> None:
        """No rank is left to ask about."""
        self._nodes.clear()
        if self._timer is not None:
            self._timer.cancel()

    def started(self, event: Started) -> None:
        """A rank runs, and has used nothing yet."""
        self._cpu[event.rank] = event.at, 0.0

    def look(self) -> Callable[[], None]:
        """Somebody looks from now on; until what is returned is called."""
        self._lookers += 1
        if self._lookers == 1:
            self._ask_all()
        return self._look_away

    def _look_away(self) -> None:
        self._lookers -= 1

    # Asking

    def _next(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.after(seconds, self._ask_all)

    def _ask_all(self) -> None:
        for node_rank in self._nodes:
            self._ask(node_rank)
        if self._lookers and self._nodes:
            self._next(_OFTEN)
        elif any(not self._agents.beats(node_rank) for node_rank in self._nodes):
            self._next(_SELDOM)

    def _ask(self, node_rank: int) -> None:
        now = time.monotonic()
        if node_rank in self._waiting and now - self._nodes[node_rank] < _NO_ANSWER:
            return
        self._nodes[node_rank] = now
        self._waiting.add(node_rank)
        self._agents.order_one(node_rank, TakeUsage())

    def _beat(self, node_rank: int) -> None:
        asked = self._nodes.get(node_rank)
        if asked is not None and time.monotonic() - asked >= _SELDOM - _OFTEN:
            self._ask(node_rank)

    # Answers

    def take(self, used: Used) -> None:
        """A node has answered."""
        self._waiting.discard(used.node_rank)
        now = time.time()
        for name, told in used.ranks.items():
            rank = int(name)
            self._on_metric(
                Metric(
                    round(now, 3),
                    self._attempt,
                    rank,
                    SYSTEM,
                    rss=_whole(told.get("rss")),
                    cpu=self._cores(rank, used.at, told.get("cpu")),
                    gpu_memory=_whole(told.get("gpu_memory")),
                    gpu_memory_total=_whole(told.get("gpu_memory_total")),
                    gpu_utilization=told.get("gpu_utilization"),
                )
            )

    def _cores(self, rank: int, at: float, used: float | None) -> float | None:
        """Cores that were busy since the answer before."""
        before = self._cpu.get(rank)
        if used is None:
            return None
        self._cpu[rank] = at, used
        if before is None or at - before[0] < _OFTEN / 4:
            return None
        return round(max(0.0, used - before[1]) / (at - before[0]), 3)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
