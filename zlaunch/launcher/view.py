"""What somebody who looks at a running run is shown: a snapshot a second, while anybody looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from zlaunch.insight.board import Board
from zlaunch.launcher.agents import Agents
from zlaunch.launcher.sampling import Sampling
from zlaunch.run.messages import Started
from zlaunch.run.metrics import Metric
from zlaunch.spec.plan import Plan
from zlaunch.system.loop import Loop, Timer

_EVERY = 1.0  # seconds
_SELDOM = 15.0
_KEPT_EVERY = 10.0  # seconds, of a rank: whoever looks on for days shall not fill the disk
_OUT_OF_MEMORY = (b"ut of memory", b"OutOfMemoryError", b"can't allocate memory")

Snapshot = Mapping[str, Any]


class View:
    """Hears what the launcher hears, and passes snapshots on to those who look."""

    def __init__(
        self,
        loop: Loop,
        agents: Agents,
        plan: Plan,
        on_usage: Callable[[Metric], None],
        head: Callable[[], Snapshot],
    ) -> None:
        """`on_usage` gets what ranks use, now and then; `head` says what stands above the ranks."""
        self._loop = loop
        self._head = head
        self._on_usage = on_usage
        self._world = plan.topology.world_size
        self._board = Board(self._world, _workers(plan))
        self.sampling = Sampling(loop, agents, self._take_usage)
        self._kept: dict[int, float] = {}
        self._lookers: list[Callable[[Snapshot], None]] = []
        self._timer: Timer | None = None

    # What happens

    def event(self, fields: Mapping[str, Any]) -> None:
        """Take what goes to events.jsonl."""
        self._board.event(fields)

    def started(self, event: Started) -> None:
        """A rank runs."""
        self.sampling.started(event)

    def wrote(self, rank: int, data: bytes) -> None:
        """A rank has written something."""
        self._board.wrote(rank, time.time())
        if any(words in data for words in _OUT_OF_MEMORY):
            self._board.ran_out_of_memory(rank)

    def metric(self, metric: Metric) -> None:
        """A rank has told something of its training."""
        self._board.metric(metric)

    def _take_usage(self, metric: Metric) -> None:
        self._board.metric(metric)
        if metric.at - self._kept.get(metric.rank, 0.0) >= _KEPT_EVERY:
            self._kept[metric.rank] = metric.at
            self._on_usage(metric)

    # Who looks

    def follow(self, show: Callable[[Snapshot], None]) -> None:
        """Show how things stand now and then, for as long as the run goes on."""

        def again() -> None:
            show(self.snapshot())
            self._loop.after(_SELDOM, again)

        self._loop.after(_SELDOM, again)

    def look(self, show: Callable[[Snapshot], None]) -> Callable[[], None]:
        """Show how things stand, now and each second; until what is returned is called."""
        look_away = self.sampling.look()
        self._lookers.append(show)
        show(self.snapshot())
        if self._timer is None:
            self._timer = self._loop.after(_EVERY, self._show)

        def leave() -> None:
            look_away()
            self._lookers.remove(show)

        return leave

    def _show(self) -> None:
        self._timer = None
        if self._lookers:
            snapshot = self.snapshot()
            self._timer = self._loop.after(_EVERY, self._show)
            for show in list(self._lookers):  # one may leave meanwhile
                show(snapshot)

    def snapshot(self) -> Snapshot:
        """How things stand now."""
        now = time.time()
        return {**self._head(), "at": round(now, 3), **self._board.snapshot(now)}


def _workers(plan: Plan) -> list[dict[str, Any]]:
    nodes = plan.topology.nodes
    return [
        {
            "rank": worker.rank,
            "host": nodes[worker.node_rank].host,
            "slot": worker.slot,
            "env": spec.env,
        }
        for worker, spec in zip(plan.topology.workers, plan.workers, strict=True)
    ]
