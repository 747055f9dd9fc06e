"""When agents are asked what their ranks use, and what is made of their answers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from zlaunch.launcher import sampling
from zlaunch.launcher.agents import Agents
from zlaunch.launcher.sampling import Sampling
from zlaunch.run.messages import Order, Started, TakeUsage, Used
from zlaunch.run.metrics import Metric
from zlaunch.system.loop import Loop


class FakeAgents:
    """Two nodes; those that are `beating` are pinged."""

    def __init__(self, *beating: int) -> None:
        self.beating = beating
        self.asked: list[int] = []
        self.on_beat: Any = None

    def beats(self, node_rank: int) -> bool:
        return node_rank in self.beating

    def order_one(self, node_rank: int, order: Order) -> None:
        assert isinstance(order, TakeUsage)
        self.asked.append(node_rank)


class Bench:
    """A loop with real time, in which what is seldom comes soon."""

    def __init__(self, *beating: int) -> None:
        self.loop = Loop()
        self.agents = FakeAgents(*beating)
        self.metrics: list[Metric] = []
        self.sampling = Sampling(self.loop, cast("Agents", self.agents), self.metrics.append)

    def answer(self, node_rank: int, at: float = 0.0, **ranks: Any) -> None:
        self.sampling.take(Used(node_rank, at, ranks))

    def run_for(self, seconds: float) -> None:
        self.loop.after(seconds, self.loop.stop)
        self.loop.run()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_FIRST", 0.05)
    monkeypatch.setattr(sampling, "_OFTEN", 0.05)
    monkeypatch.setattr(sampling, "_SELDOM", 0.3)


def test_where_all_nodes_are_pinged_nobody_wakes_up_for_it() -> None:
    bench = Bench(0, 1)
    bench.sampling.begin({0, 1}, 0)
    bench.loop.run()  # it returns, for there is nothing left to wait for
    assert bench.agents.asked == [0, 1]
    for node_rank in (0, 1):
        bench.answer(node_rank)
        bench.agents.on_beat(node_rank)  # too soon
    assert bench.agents.asked == [0, 1]
    bench.run_for(0.3)
    bench.agents.on_beat(1)
    assert bench.agents.asked == [0, 1, 1]


def test_a_node_that_is_not_pinged_is_asked_by_a_timer() -> None:
    bench = Bench(1)
    bench.sampling.begin({0, 1}, 0)
    bench.loop.after(0.01, lambda: bench.answer(0))
    bench.run_for(0.2)
    assert sorted(bench.agents.asked) == [0, 1]
    bench.sampling.end()
    bench.loop.run()


def test_somebody_who_looks_has_them_asked_often_and_no_longer_than_that() -> None:
    bench = Bench(0)
    bench.sampling.begin({0}, 0)
    bench.agents.order_one = lambda node, _: bench.loop.after(  # type: ignore[method-assign]
        0.0, lambda: (bench.agents.asked.append(node), bench.answer(node))
    )
    leave = bench.sampling.look()
    bench.loop.after(2.0, leave)
    bench.loop.run()  # it returns once nobody looks
    assert len(bench.agents.asked) > 3


def test_who_does_not_answer_is_not_asked_on_and_on() -> None:
    bench = Bench(0)
    bench.sampling.begin({0}, 0)
    leave = bench.sampling.look()
    bench.loop.after(0.5, leave)
    bench.loop.run()
    assert bench.agents.asked == [0]


def test_cores_are_made_of_two_answers() -> None:
    bench = Bench(0)
    bench.sampling.begin({0}, 2)
    bench.sampling.started(Started(5, 99, 100.0))
    bench.answer(0, 104.0, **{"5": {"cpu": 2.0, "rss": 7, "gpu_memory": 8.0}})
    bench.answer(0, 106.0, **{"5": {"cpu": 5.0}, "6": {"cpu": 1.0}})
    first, second, other = bench.metrics
    assert (first.rank, first.attempt, first.source) == (5, 2, "system")
    assert (first.cpu, first.rss, first.gpu_memory) == (0.5, 7, 8)
    assert (second.cpu, second.rss) == (1.5, None)
    assert other.cpu is None  # nobody knows since when
