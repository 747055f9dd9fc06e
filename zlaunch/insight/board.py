"""How a run stands at a moment, as data: what `zlaunch top` and `--live` show.

Made of the same things while it runs and from the files of a run that is over: what happened
(the objects of events.jsonl) and what the ranks told and used (`run/metrics.py`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from zlaunch.insight.time_left import seconds_left
from zlaunch.run.metrics import SYSTEM, Metric
from zlaunch.run.rank_states import RUNNING, RankState, after, when_over
from zlaunch.spec.slots import gpu_in_words

TOLD = (
    *("step", "total", "epoch", "loss", "lr", "grad_norm", "loss_scale", "skipped"),
    *("samples_per_second", "tokens_per_second", "step_seconds", "eval_loss"),
)
USED = ("gpu_memory", "gpu_memory_total", "gpu_utilization", "rss", "cpu")
_LOSSES = 240  # of the newest are kept
_STEPS = 64  # of the newest tell how fast it goes
_APART = 0.5  # seconds between two of them
_KILL = 9
_MARKED = 30.0  # seconds for which an overflow is shown


class Board:
    """Takes what happens, and says how things stand.

    `workers` is of the plan in a run's record: host, slot and environment of each rank.
    """

    def __init__(self, world_size: int, workers: Any = ()) -> None:
        self._world = world_size
        self._places = _places(workers, world_size)
        self._states = [RankState()] * world_size
        self._told: list[dict[str, Any]] = [{} for _ in range(world_size)]
        self._used: list[dict[str, Any]] = [{} for _ in range(world_size)]
        self._wrote: dict[int, float] = {}
        self._overflows: dict[int, float] = {}
        self._out_of_memory: set[int] = set()
        self._steps: deque[tuple[float, int]] = deque(maxlen=_STEPS)
        self._totals: dict[str, int] = {}  # by the source that told
        self._source = ""  # whose steps these are
        self._losses: deque[float] = deque(maxlen=_LOSSES)
        self._teller: int | None = None
        self._attempt = 0

    # What happens

    def event(self, fields: Mapping[str, Any]) -> None:
        """Take an object of events.jsonl."""
        rank = fields.get("rank")
        if not isinstance(rank, int) or not 0 <= rank < self._world:
            return
        self._states[rank] = after(self._states[rank], fields)
        if fields.get("event") == "Started":
            self._told[rank], self._used[rank] = {}, {}
            self._wrote.pop(rank, None)
            self._out_of_memory.discard(rank)
        elif self._states[rank].signal == _KILL and (fields.get("signs") or {}).get("oom_kills"):
            self._out_of_memory.add(rank)

    def metric(self, metric: Metric) -> None:
        """Take what a rank told, or uses."""
        if not 0 <= metric.rank < self._world or metric.attempt < self._attempt:
            return
        if metric.attempt > self._attempt:
            self._begin(metric.attempt)
        if metric.source == SYSTEM:
            self._used[metric.rank] = _known(metric, USED)
            return
        self._told[metric.rank].update(_known(metric, TOLD))
        if metric.overflow:
            self._overflows[metric.rank] = metric.at
        if self._teller is None or metric.rank < self._teller:
            self._teller = metric.rank
            self._steps.clear()
            self._totals.clear()
            self._losses.clear()
        if metric.rank == self._teller:
            self._note_progress(metric)

    def _begin(self, attempt: int) -> None:
        self._attempt = attempt
        self._teller = None
        self._totals.clear()
        self._overflows.clear()
        self._told = [{} for _ in self._told]

    def _note_progress(self, metric: Metric) -> None:
        if metric.loss is not None and math.isfinite(metric.loss):
            self._losses.append(metric.loss)
        total = self._totals.get(metric.source) if metric.total is None else metric.total
        if metric.step is None or total is None:
            return
        behind = self._steps and metric.step < self._steps[-1][1]
        if behind or (self._source, self._totals.get(metric.source)) != (metric.source, total):
            self._steps.clear()
        self._source, self._totals[metric.source] = metric.source, total
        if len(self._steps) > 1 and metric.at - self._steps[-2][0] < _APART:
            self._steps.pop()
        self._steps.append((metric.at, metric.step))

    def wrote(self, rank: int, at: float) -> None:
        """A rank has written something, at a time since the epoch."""
        self._wrote[rank] = at

    def ran_out_of_memory(self, rank: int) -> None:
        """A rank has said so."""
        self._out_of_memory.add(rank)

    # How it stands

    def snapshot(self, now: float, *, over: bool = False) -> dict[str, Any]:
        """Return how the ranks stand as JSON data; what is not known is absent.

        ranks       one object a rank: its place and state, what it told and uses, `silent`: the
                    seconds since it wrote, `overflow` and `out_of_memory` where it is so
        losses      of the rank that tells of them, the newest last
        progress    step, total and, where it can be told, `left`, the seconds to come
        """
        fields: dict[str, Any] = {"ranks": [self._rank(r, now, over) for r in range(self._world)]}
        if self._losses:
            fields["losses"] = list(self._losses)
        if self._steps:
            fields["progress"] = self._progress(self._totals[self._source], now, over)
        return fields

    def _rank(self, rank: int, now: float, over: bool) -> dict[str, Any]:
        state = self._states[rank]
        running = state.state == RUNNING
        told: dict[str, Any] = {"rank": rank, **self._places[rank]}
        told["state"] = when_over(state.state) if over else state.state
        for name, value in (("code", state.code), ("signal", state.signal), ("pid", state.pid)):
            if value is not None:
                told[name] = value
        told |= self._told[rank]
        told |= self._used[rank] if running else {}
        if running and not over and (rank in self._wrote or state.at is not None):
            told["silent"] = round(max(0.0, now - self._wrote.get(rank, state.at or now)), 1)
        if now - self._overflows.get(rank, -math.inf) < _MARKED:
            told["overflow"] = True
        if rank in self._out_of_memory:
            told["out_of_memory"] = True
        return told

    def _progress(self, total: int, now: float, over: bool) -> dict[str, Any]:
        progress: dict[str, Any] = {"step": self._steps[-1][1], "total": total}
        left = None if over else seconds_left(total, self._steps, now)
        if left is not None:
            progress["left"] = round(left, 1)
        return progress


def _known(metric: Metric, names: tuple[str, ...]) -> dict[str, Any]:
    told = {name: getattr(metric, name) for name in names}
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in told.items()
        if value is not None
    }


def _places(workers: Any, world_size: int) -> list[dict[str, Any]]:
    """Host and device of each rank, as far as the record has them."""
    places: list[dict[str, Any]] = [{} for _ in range(world_size)]
    for worker in workers if isinstance(workers, (list, tuple)) else ():
        rank = worker.get("rank") if isinstance(worker, Mapping) else None
        if isinstance(rank, int) and 0 <= rank < world_size:
            env = worker.get("env")
            cpu = isinstance(env, Mapping) and env.get("DS_ACCELERATOR") == "cpu"
            device = {"device": "CPU" if cpu else gpu_in_words(worker.get("slot"))}
            places[rank] = {**({"host": worker["host"]} if "host" in worker else {}), **device}
    return places
