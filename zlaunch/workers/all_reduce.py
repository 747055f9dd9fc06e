"""Measures all-reduce over the ranks of a run: within each host, over all, between neighbours.

Every rank runs this file; it needs torch and nothing else, and Python 3.9. Rank 0 prints each
result as a line of its own: MARK, a blank and a JSON object. zlaunch/insight/bandwidth.py reads
them.

Bus bandwidth is that of nccl-tests (doc/PERFORMANCE.md there): bytes / seconds, times
2 * (n - 1) / n for n ranks. It does not depend on n, so that groups of different sizes compare
with each other and with what a link can carry.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

MARK = "ZLAUNCH-BANDWIDTH"
MIB = 1 << 20
# Bytes of a message by backend: the small one says how long the large one will take. NVLink
# comes near its best with the large one, while CPUs need no more than they can copy quickly.
SMALL = {"nccl": 8 * MIB, "gloo": MIB // 2}
LARGE = {"nccl": 256 * MIB, "gloo": 8 * MIB}
SECONDS = 1.0  # of timed messages for one group
SECONDS_OF_PAIRS = 20.0  # for all pairs, since they come one after the other
FEWEST, MOST = 2, 50  # timed messages of one group; an idle GPU needs some to reach its clock
COLLECTIVE = timedelta(seconds=60)  # one that takes longer hangs
# Others may still be importing torch, or measuring while these ranks wait for their turn. A
# rank that fails meanwhile ends the run, so this is only for what nobody notices.
PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True)
class Group:
    """Ranks that are measured together; the first one decides and keeps the time."""

    kind: str  # within, world or pair
    nodes: tuple[int, ...]
    ranks: tuple[int, ...]

    @property
    def key(self) -> str:
        """Its name in the store."""
        return "-".join([self.kind, *map(str, self.nodes)])


def all_groups(sizes: list[int]) -> list[Group]:
    """The groups in the order in which they are measured; `sizes` are the ranks of each node."""
    starts = [sum(sizes[:node]) for node in range(len(sizes))]
    groups = [
        Group("within", (node,), tuple(range(start, start + size)))
        for node, (start, size) in enumerate(zip(starts, sizes))
        if size > 1
    ]
    nodes = tuple(range(len(sizes)))
    if len(nodes) > 1:
        groups.append(Group("world", nodes, tuple(range(sum(sizes)))))
    ring = list(zip(nodes, nodes[1:]))
    if len(nodes) > 2:
        ring.append((nodes[-1], nodes[0]))
    return groups + [Group("pair", (a, b), (starts[a], starts[b])) for a, b in ring]


class Meeting:
    """The store that all ranks share, for what has to be agreed and told."""

    def __init__(self) -> None:
        env = os.environ
        self.rank, self.world = int(env["RANK"]), int(env["WORLD_SIZE"])
        address, port = env["MASTER_ADDR"], int(env["MASTER_PORT"])
        self.store = dist.TCPStore(address, port, self.world, self.rank == 0, PATIENCE)

    def tell(self, key: str, value: Any) -> None:
        """Put a value where every rank finds it."""
        self.store.set(key, json.dumps(value))

    def hear(self, key: str) -> Any:
        """Wait for a value."""
        self.store.wait([key], PATIENCE)
        return json.loads(self.store.get(key))

    def part(self) -> None:
        """Leave together: the store is gone once rank 0 is, and others may still be reading."""
        if self.rank == 0:
            self.tell("done", True)
        self.hear("done")
        dist.destroy_process_group()
        if self.rank == 0:
            self.store.wait([f"left-{rank}" for rank in range(1, self.world)], PATIENCE)
        else:
            self.tell(f"left-{self.rank}", True)


def describe_nodes(meeting: Meeting) -> list[dict[str, Any]]:
    """Tell what this node has, and hear it of all: ranks, and the GPU that torch can use."""
    env = os.environ
    ranks, wanted = int(env["LOCAL_WORLD_SIZE"]), bool(env.get("CUDA_VISIBLE_DEVICES"))
    if int(env["LOCAL_RANK"]) == 0:
        usable = wanted and torch.cuda.is_available() and torch.cuda.device_count() >= ranks
        device = torch.cuda.get_device_name(0) if usable else None
        meeting.tell(
            f"node-{env['NODE_RANK']}", {"ranks": ranks, "gpus_wanted": wanted, "device": device}
        )
    return [meeting.hear(f"node-{node}") for node in range(int(env["GROUP_WORLD_SIZE"]))]


def say(kind: str, **fields: Any) -> None:
    """Print one result."""
    print(MARK, json.dumps({"kind": kind, **fields}), flush=True)


def once(tensor: Any, handle: Any) -> float:
    """The seconds of one all-reduce."""
    finish(tensor)
    begun = time.perf_counter()
    dist.all_reduce(tensor, group=handle)
    finish(tensor)
    return time.perf_counter() - begun


def finish(tensor: Any) -> None:
    """Wait for the GPU, which is only told what to do; a CPU has done it."""
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


def measure(group: Group, handle: Any, meeting: Meeting, device: Any, seconds: float) -> None:
    """Take part in measuring the group; its first rank tells the result."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    first = meeting.rank == group.ranks[0]
    probe = torch.ones(SMALL[backend] // 4, device=device)
    once(probe, handle)  # connects
    if not bool((probe == len(group.ranks)).all()):
        raise RuntimeError(f"all-reduce over ranks {group.ranks} gave a wrong sum")
    took = once(probe, handle)
    if first:
        meeting.tell(f"{group.key}-plan", plan(took, backend, seconds))
    size, count = meeting.hear(f"{group.key}-plan")
    message = torch.zeros(size // 4, device=device)
    once(message, handle)
    times = [once(message, handle) for _ in range(count)]
    if first:
        meeting.tell(group.key, result(group, size, times))


def plan(took: float, backend: str, seconds: float) -> tuple[int, int]:
    """Bytes of the message and how often it is sent, from the seconds of a small one."""
    small, large = SMALL[backend], LARGE[backend]
    size, expected = large, took * large / small
    if expected > 2 * seconds:
        size, expected = small, took
    return size, max(FEWEST, min(MOST, int(seconds / max(expected, 1e-6))))


def result(group: Group, size: int, times: list[float]) -> dict[str, Any]:
    """What is printed of a group; one slow message of many does not count."""
    ranks, seconds = len(group.ranks), statistics.median(times)
    return {
        "nodes": group.nodes,
        "ranks": ranks,
        "bytes": size,
        "iterations": len(times),
        "seconds": seconds,
        "bus_bytes_per_second": size / seconds * 2 * (ranks - 1) / ranks,
    }


def main() -> None:
    """Measure group after group, the pairs in turn so that none disturbs another."""
    meeting = Meeting()
    nodes = describe_nodes(meeting)
    backend = "nccl" if all(node["device"] for node in nodes) else "gloo"
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend,
        store=meeting.store,
        rank=meeting.rank,
        world_size=meeting.world,
        timeout=COLLECTIVE,
    )
    groups = all_groups([node["ranks"] for node in nodes])
    # Every rank makes every group, in one order, as torch wants it.
    handles = [dist.new_group(list(group.ranks), timeout=COLLECTIVE) for group in groups]
    if meeting.rank == 0:
        say("setup", backend=backend, torch=torch.__version__, nodes=nodes)
    pairs = sum(group.kind == "pair" for group in groups)
    before: Group | None = None
    for group, handle in zip(groups, handles):
        if meeting.rank in group.ranks:
            seconds = SECONDS
            if group.kind == "pair":
                seconds = min(SECONDS, SECONDS_OF_PAIRS / pairs)
                if before is not None:
                    meeting.hear(before.key)  # its turn is over
            measure(group, handle, meeting, device, seconds)
        if meeting.rank == 0:
            say(group.kind, **meeting.hear(group.key))
        before = group
    if meeting.rank == 0:
        say("end")
    meeting.part()


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        # Threads of torch that nobody ended abort the process now and then, or hold it up.
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
        os._exit(1)
