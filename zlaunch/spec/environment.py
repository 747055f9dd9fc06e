"""The environment of a worker: what torch, DeepSpeed, Accelerate and the HF Trainer read.

The names are the union of what torchrun, `deepspeed` and `accelerate launch` set, so that
a script written for any of them finds what it looks for. LOCAL_RANK is the index on the
node (torchrun's meaning, which DeepSpeed's modulo rule equals on even nodes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from zlaunch.frozen import frozen
from zlaunch.spec.slurm_task import as_task
from zlaunch.spec.topology import Topology, Worker

DeviceKind = Literal["cuda", "cpu"]
Target = Literal["plain", "hf", "accelerate"]


@frozen
class Rendezvous:
    """Where rank 0 listens."""

    address: str
    port: int


@frozen
class Surroundings:
    """What the environment of every worker of a run is made from.

    `run_dir` and `ds_config` are paths; `cores` maps a node rank to its usable cores;
    `inherited` is the environment that the workers start from; on the nodes in `on_node` it is
    another one, of which no more than CONSULTED needs to be known. In a job of `slurm` ranks are
    told what they would be as its tasks.
    """

    run_id: str
    run_dir: str
    rendezvous: Rendezvous
    device: DeviceKind
    target: Target
    ds_config: str | None
    precision: str | None
    cores: Mapping[int, int]
    inherited: Mapping[str, str]
    on_node: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    max_restarts: int = 0
    slurm: bool = False

    def inherited_by(self, worker: Worker) -> Mapping[str, str]:
        """The environment that this worker starts from, as far as it is known."""
        return self.on_node.get(worker.node_rank, self.inherited)


def worker_environment(topology: Topology, worker: Worker, around: Surroundings) -> dict[str, str]:
    """Return what zlaunch sets for `worker`, on top of what it inherits."""
    return {
        **_ranks(topology, worker),
        "MASTER_ADDR": around.rendezvous.address,
        "MASTER_PORT": str(around.rendezvous.port),
        **_torchelastic(around, worker),
        **_devices(topology, worker, around),
        **_threads(topology, worker, around),
        "PYTHONUNBUFFERED": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": around.inherited_by(worker).get(
            "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"
        ),
        **_flight_recorder(around, worker),
        **_zlaunch(around, worker),
        **_accelerate(around),
        **(as_task(topology, worker) if around.slurm else {}),
    }


def _ranks(topology: Topology, worker: Worker) -> dict[str, str]:
    local_size = str(len(topology.nodes[worker.node_rank].slots))
    world_size, nodes = str(topology.world_size), str(len(topology.nodes))
    rank, node_rank = str(worker.rank), str(worker.node_rank)
    return {
        "RANK": rank,
        "LOCAL_RANK": str(worker.local_rank),
        "WORLD_SIZE": world_size,
        "LOCAL_WORLD_SIZE": local_size,
        "LOCAL_SIZE": local_size,
        "NODE_RANK": node_rank,
        "GROUP_RANK": node_rank,
        "GROUP_WORLD_SIZE": nodes,
        "CROSS_RANK": node_rank,
        "CROSS_SIZE": nodes,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world_size,
    }


def _torchelastic(around: Surroundings, worker: Worker) -> dict[str, str]:
    # With TORCHELASTIC_RUN_ID set, torch.distributed.is_torchelastic_launched() is true.
    # Agents host no store, so TORCHELASTIC_USE_AGENT_STORE must not be inherited as True.
    return {
        "TORCHELASTIC_RUN_ID": around.run_id,
        "TORCHELASTIC_MAX_RESTARTS": str(around.max_restarts),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        **of_attempt(around.run_dir, worker.rank, 0),
    }


def error_file_name(rank: int, attempt: int) -> str:
    """What TORCHELASTIC_ERROR_FILE is called."""
    return f"rank-{rank}.{attempt}.json" if attempt else f"rank-{rank}.json"


def of_attempt(run_dir: str, rank: int, attempt: int) -> dict[str, str]:
    """Return what differs from attempt to attempt; the first has the number 0."""
    return {
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "ZLAUNCH_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_ERROR_FILE": f"{run_dir}/errors/{error_file_name(rank, attempt)}",
    }


def _devices(topology: Topology, worker: Worker, around: Surroundings) -> dict[str, str]:
    if around.device == "cpu":
        return {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    slots = topology.nodes[worker.node_rank].slots
    env = {"CUDA_VISIBLE_DEVICES": ",".join(str(slot) for slot in slots)}
    inherited = around.inherited_by(worker)
    if "CUDA_VISIBLE_DEVICES" not in inherited:
        # Indices chosen here are those of NVML and nvidia-smi; CUDA's own order, fastest
        # first, is another one on a machine with different cards.
        env["CUDA_DEVICE_ORDER"] = inherited.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return env


def _threads(topology: Topology, worker: Worker, around: Surroundings) -> dict[str, str]:
    """OMP_NUM_THREADS: the user's value, else the node's usable cores shared by its ranks."""
    given = around.inherited_by(worker).get("OMP_NUM_THREADS")
    cores = around.cores.get(worker.node_rank)
    if cores is None:  # the agent counts them there
        return {"OMP_NUM_THREADS": given} if given else {}
    share = max(1, cores // len(topology.nodes[worker.node_rank].slots))
    return {"OMP_NUM_THREADS": given or str(share)}


def _flight_recorder(around: Surroundings, worker: Worker) -> dict[str, str]:
    """Where PyTorch writes what its collectives were at, when one of them times out."""
    inherited = around.inherited_by(worker)
    outer = inherited.get("ZLAUNCH_RUN_DIR")  # an outer launch's file is not the user's
    given = [inherited[name] for name in _DUMP_FILES if name in inherited]
    if any(outer is None or not path.startswith(f"{outer}/") for path in given):
        return {}
    return {_DUMP_FILES[0]: f"{around.run_dir}/flight/rank-"}  # it adds the rank


def _zlaunch(around: Surroundings, worker: Worker) -> dict[str, str]:
    own = {
        "ZLAUNCH_RUN_ID": around.run_id,
        "ZLAUNCH_NODE_RANK": str(worker.node_rank),  # which nobody else sets anew
        "ZLAUNCH_RUN_DIR": around.run_dir,
    }
    if around.ds_config is not None:
        own["ZLAUNCH_DS_CONFIG"] = around.ds_config
    return own


def _accelerate(around: Surroundings) -> dict[str, str]:
    """What turns an unchanged Accelerate or Trainer script to ZeRO.

    Accelerate does not enter DeepSpeed without a GPU; with ACCELERATE_USE_CPU it trains
    as plain DDP there, instead of taking each rank for a world of its own. The Trainer gets
    neither that (it would leave DeepSpeed too) nor a precision (its own arguments decide).
    """
    env: dict[str, str] = {}
    on_cpu = around.target == "accelerate" and around.device == "cpu"
    if on_cpu:
        env["ACCELERATE_USE_CPU"] = "true"
    elif around.target != "plain" and around.ds_config is not None:
        env["ACCELERATE_USE_DEEPSPEED"] = "true"
        env["ACCELERATE_DEEPSPEED_CONFIG_FILE"] = around.ds_config
    if around.target == "accelerate" and around.precision is not None:
        env["ACCELERATE_MIXED_PRECISION"] = {"fp32": "no"}.get(around.precision, around.precision)
    return env


# Names that belong to one launch. An inherited value (of an outer torchrun, say) would
# speak of another world, so where zlaunch sets no value of its own it is taken away.
OWNED = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "NODE_RANK",
    "GROUP_RANK", "GROUP_WORLD_SIZE", "CROSS_RANK", "CROSS_SIZE", "ROLE_RANK", "ROLE_NAME",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE", "ZLAUNCH_RUN_ID", "ZLAUNCH_NODE_RANK", "ZLAUNCH_RUN_DIR",
    "ZLAUNCH_DS_CONFIG", "ZLAUNCH_RESTART_COUNT",
)  # fmt: skip


# The second is the name before torch 2.9, which later ones warn of.
_DUMP_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")

# Names of which the plan has to know what a worker would inherit.
CONSULTED = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "OMP_NUM_THREADS",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING", *_DUMP_FILES,
)  # fmt: skip


def shared_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return `inherited` without the names that zlaunch owns."""
    return {name: value for name, value in inherited.items() if name not in OWNED}


def replaced(inherited: Mapping[str, str]) -> tuple[str, ...]:
    """The owned names that were inherited: worth a note under -v."""
    return tuple(name for name in OWNED if name in inherited)
