"""What a rank reads in Slurm's variables.

Pure. An agent is the one task of a step of one node, or of a batch script, so what Slurm tells it
of tasks would have each rank take itself for rank 0 of 1. Ranks are told what they would be as
Slurm's own tasks.
"""

from __future__ import annotations

from itertools import groupby

from zlaunch.spec.topology import Topology, Worker


def as_task(topology: Topology, worker: Worker) -> dict[str, str]:
    """Return what Slurm would tell the rank if it were one of its tasks."""
    counts = [len(node.slots) for node in topology.nodes]
    runs = [(count, len(list(same))) for count, same in groupby(counts)]
    per_node = ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)
    world, own = str(topology.world_size), {}
    if len(set(counts)) == 1:
        own["SLURM_NTASKS_PER_NODE"] = str(counts[0])
    return {
        **own,
        "SLURM_PROCID": str(worker.rank),
        "SLURM_LOCALID": str(worker.local_rank),
        "SLURM_NODEID": str(worker.node_rank),
        "SLURM_NTASKS": world,
        "SLURM_NPROCS": world,
        "SLURM_NNODES": str(len(counts)),
        "SLURM_TASKS_PER_NODE": per_node,
    }
