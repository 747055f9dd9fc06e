"""Which rank runs on which slot of which node."""

from __future__ import annotations

from collections.abc import Sequence

from zlaunch.frozen import frozen
from zlaunch.spec.hostfile import Host
from zlaunch.spec.slots import Slot


@frozen
class Node:
    """A host that takes part in a run."""

    rank: int
    host: str
    address: str
    slots: tuple[Slot, ...]


@frozen
class Worker:
    """One rank's place; `local_rank` counts from 0 on each node."""

    rank: int
    local_rank: int
    node_rank: int
    slot: Slot


@frozen
class Topology:
    """All nodes and workers of a run, in rank order."""

    nodes: tuple[Node, ...]
    workers: tuple[Worker, ...]

    @property
    def world_size(self) -> int:
        """The number of ranks over all nodes."""
        return len(self.workers)

    def on_node(self, node_rank: int) -> tuple[Worker, ...]:
        """The workers of one node, by local rank."""
        return tuple(worker for worker in self.workers if worker.node_rank == node_rank)

    @property
    def ranks_by_node(self) -> dict[int, frozenset[int]]:
        """The ranks of each node, by node rank."""
        return {
            node.rank: frozenset(w.rank for w in self.on_node(node.rank)) for node in self.nodes
        }


def lay_out(hosts: Sequence[Host]) -> Topology:
    """Give ranks to the slots of `hosts`: contiguous per host, in the order given."""
    nodes = tuple(
        Node(rank, host.name, host.address or host.name, host.slots)
        for rank, host in enumerate(hosts)
    )
    places = [
        (node.rank, local_rank, slot)
        for node in nodes
        for local_rank, slot in enumerate(node.slots)
    ]
    workers = tuple(
        Worker(rank, local_rank, node_rank, slot)
        for rank, (node_rank, local_rank, slot) in enumerate(places)
    )
    return Topology(nodes, workers)
