"""Leases over several nodes, decided without any: all hold theirs, or none holds while it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from zlaunch.launcher.agents import Agents
from zlaunch.launcher.leasing import Leasing, Wanted, Watcher
from zlaunch.run.messages import Lease, Leased, Leave, Order

BACK, OUT = Leave(devices=True), Leave(queue=True)
EVERYBODY = -1


class Nodes:
    """What the nodes were told, and what became known of it."""

    def __init__(self, count: int = 2, wait: float = 0.0) -> None:
        self.told: list[tuple[int, Order]] = []
        self.known: list[tuple[str, Any]] = []
        slots: Mapping[int, tuple[int | str, ...]] = dict.fromkeys(range(count), (0, 1))
        self.leasing = Leasing(
            cast("Agents", self),
            "run",
            Wanted(slots, dict.fromkeys(slots, 1), wait),
            Watcher(
                lambda taken: self.known.append(("taken", dict(taken))),
                lambda why, busy: self.known.append(("refused", (dict(why), busy))),
                lambda why: self.known.append(("waiting", dict(why))),
                lambda rank, note: self.known.append(("note", (rank, note))),
            ),
        )
        self.leasing.begin(range(count))
        self.asked(*range(count))

    def order(self, order: Order) -> None:
        self.told.append((EVERYBODY, order))

    def order_one(self, node_rank: int, order: Order) -> None:
        self.told.append((node_rank, order))

    def asked(self, *nodes: int) -> None:
        """These are asked for leases now, and nobody is told anything else."""
        orders = [order for _, order in self.told]
        assert all(isinstance(order, Lease) for order in orders), orders
        assert [node for node, _ in self.told] == list(nodes)
        self.told.clear()

    def tells(self, node_rank: int, *expected: tuple[int, Order], **fields: Any) -> None:
        """A node answers, and others are told this for it."""
        self.leasing.take(Leased(node_rank, **fields))
        if expected:
            assert self.told == list(expected)
            self.told.clear()


def test_all_have_theirs_at_once() -> None:
    nodes = Nodes()
    nodes.tells(1, slots=(1,))
    nodes.tells(0, slots=(0,), note="careful")
    assert nodes.known == [("note", (0, "careful")), ("taken", {0: (0,), 1: (1,)})]
    assert nodes.told == []


def test_who_does_not_wait_is_refused_once_all_have_answered() -> None:
    nodes = Nodes(3)
    nodes.tells(1, busy="held")
    nodes.tells(0, slots=(0,))
    assert nodes.known == []
    nodes.tells(2, busy="in use")
    assert nodes.known == [("refused", ({1: "held", 2: "in use"}, True))]


def test_one_that_cannot_be_asked_is_refused_with_those_that_wait() -> None:
    nodes = Nodes(2, wait=9.0)
    nodes.tells(0, problem="no driver")
    nodes.tells(1, busy="held")
    assert nodes.known[-1] == ("refused", ({0: "no driver", 1: "held"}, False))


def test_nobody_holds_while_another_waits() -> None:
    nodes = Nodes(2, wait=9.0)
    nodes.tells(0, slots=(0,))
    nodes.tells(1, (0, BACK), busy="held")
    assert nodes.known == [("waiting", {1: "held"})]
    nodes.tells(1, busy="held by another")
    assert nodes.known[1:] == [("waiting", {1: "held by another"})]
    nodes.tells(1, slots=(1,))
    nodes.asked(0)
    nodes.tells(0, (EVERYBODY, OUT), slots=(1,))
    assert nodes.known[2:] == [("taken", {0: (1,), 1: (1,)})]


def test_two_that_wait_come_together_in_the_end() -> None:
    nodes = Nodes(2, wait=9.0)
    nodes.tells(0, busy="a")
    nodes.tells(1, busy="b")
    nodes.tells(1, (1, BACK), slots=(0,))  # too soon
    nodes.tells(0, slots=(0,))
    nodes.asked(1)
    nodes.tells(1, (0, BACK), busy="somebody else was faster")
    nodes.tells(1, slots=(0,))
    nodes.asked(0)
    nodes.tells(0, (EVERYBODY, OUT), slots=(0,))
    assert nodes.known[-1] == ("taken", {0: (0,), 1: (0,)})
