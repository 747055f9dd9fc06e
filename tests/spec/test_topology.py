"""Ranks over hosts, even and uneven."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.spec.hostfile import Host, parse_hostfile
from zlaunch.spec.slots import Slot
from zlaunch.spec.topology import Node, Worker, lay_out

LAYOUTS: dict[str, tuple[list[tuple[Slot, ...]], list[tuple[int, int, int, Slot]]]] = {
    "one host": ([(0, 1)], [(0, 0, 0, 0), (1, 1, 0, 1)]),
    "even": ([(0, 1), (0, 1)], [(0, 0, 0, 0), (1, 1, 0, 1), (2, 0, 1, 0), (3, 1, 1, 1)]),
    "uneven": (
        [(0,), (0, 1, 2), (5, 4)],
        [(0, 0, 0, 0), (1, 0, 1, 0), (2, 1, 1, 1), (3, 2, 1, 2), (4, 0, 2, 5), (5, 1, 2, 4)],
    ),
    "as the user ordered them": (
        [(3, 1), ("GPU-b", "MIG-a")],
        [(0, 0, 0, 3), (1, 1, 0, 1), (2, 0, 1, "GPU-b"), (3, 1, 1, "MIG-a")],
    ),
}


@pytest.mark.parametrize(("slots", "places"), LAYOUTS.values(), ids=LAYOUTS)
def test_ranks(slots: list[tuple[Slot, ...]], places: list[tuple[int, int, int, Slot]]) -> None:
    topology = lay_out([Host(f"h{number}", own) for number, own in enumerate(slots)])
    assert topology.workers == tuple(Worker(*place) for place in places)
    assert topology.world_size == len(places)
    assert [node.slots for node in topology.nodes] == slots


def test_nodes_are_in_the_order_of_the_hostfile() -> None:
    hosts = parse_hostfile("b slots=2 address=10.0.0.2\na slots=1\n", "hosts")
    topology = lay_out(hosts)
    assert topology.nodes == (Node(0, "b", "10.0.0.2", (0, 1)), Node(1, "a", "a", (0,)))


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_every_layout_counts_up(counts: list[int]) -> None:
    topology = lay_out([Host(f"h{i}", tuple(range(count))) for i, count in enumerate(counts)])
    assert [worker.rank for worker in topology.workers] == list(range(sum(counts)))
    for node, count in zip(topology.nodes, counts, strict=True):
        own = topology.on_node(node.rank)
        assert [worker.local_rank for worker in own] == list(range(count))
        assert [worker.rank - own[0].rank for worker in own] == list(range(count))
    together = [worker for node in topology.nodes for worker in topology.on_node(node.rank)]
    assert tuple(together) == topology.workers
