"""What a worker finds in its environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zlaunch.spec.environment import (
    DeviceKind,
    Rendezvous,
    Surroundings,
    Target,
    replaced,
    shared_environment,
    worker_environment,
)
from zlaunch.spec.hostfile import Host
from zlaunch.spec.topology import lay_out

AROUND = Surroundings(
    run_id="run7",
    run_dir="/state/run7",
    rendezvous=Rendezvous("10.0.0.1", 29123),
    device="cuda",
    target="plain",
    ds_config="/state/run7/ds_config.json",
    precision="bf16",
    cores={0: 8, 1: 8},
    inherited={},
)
UNEVEN = lay_out([Host("a", (3,)), Host("b", (2, 0, 5))])
ALONE = lay_out([Host("localhost", (0, 1))])
# Of design.md's names, those that a user may have set on purpose.
USERS_OWN = {"OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}


def seen(rank: int = 0, topology: object = UNEVEN, **changes: object) -> dict[str, str]:
    """The whole environment of a worker, what it inherits included."""
    around = replace(AROUND, **changes)  # type: ignore[arg-type]
    layout = topology if topology is ALONE else UNEVEN
    own = worker_environment(layout, layout.workers[rank], around)
    return {**shared_environment(around.inherited), **own}


def test_every_name_on_uneven_nodes() -> None:
    assert seen(2) == {
        "RANK": "2",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "3",
        "LOCAL_SIZE": "3",
        "NODE_RANK": "1",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "CROSS_RANK": "1",
        "CROSS_SIZE": "2",
        "ROLE_RANK": "2",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29123",
        "TORCHELASTIC_RUN_ID": "run7",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": "/state/run7/errors/rank-2.json",
        "CUDA_VISIBLE_DEVICES": "2,0,5",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "OMP_NUM_THREADS": "2",
        "PYTHONUNBUFFERED": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "ZLAUNCH_RESTART_COUNT": "0",
        "TORCH_FR_DUMP_TEMP_FILE": "/state/run7/flight/rank-",
        "ZLAUNCH_NODE_RANK": "1",
        "ZLAUNCH_RUN_ID": "run7",
        "ZLAUNCH_RUN_DIR": "/state/run7",
        "ZLAUNCH_DS_CONFIG": "/state/run7/ds_config.json",
    }


def test_local_ranks_of_each_node() -> None:
    places = [(seen(rank)["NODE_RANK"], seen(rank)["LOCAL_RANK"]) for rank in range(4)]
    assert places == [("0", "0"), ("1", "0"), ("1", "1"), ("1", "2")]


def test_an_outer_launch_does_not_shine_through() -> None:
    names = set(seen()) - USERS_OWN - {"CUDA_DEVICE_ORDER", "TORCH_FR_DUMP_TEMP_FILE"}
    outer = dict.fromkeys(names | {"ROLE_NAME"}, "outer")
    inside = seen(inherited=outer)
    assert "outer" not in inside.values()
    assert "ROLE_NAME" not in inside


def test_a_flight_recorder_s_file_is_the_users_to_set_and_not_an_outer_launch_s() -> None:
    name, outer = "TORCH_FR_DUMP_TEMP_FILE", {"ZLAUNCH_RUN_DIR": "/state/run6"}
    assert seen(inherited={name: "/mine/"})[name] == "/mine/"
    assert name not in seen(inherited={"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/mine/"})
    inside = seen(inherited={**outer, name: "/state/run6/flight/rank-"})
    assert inside[name] == "/state/run7/flight/rank-"


def test_an_outer_config_does_not_shine_through_where_there_is_none() -> None:
    inside = seen(ds_config=None, inherited={"ZLAUNCH_DS_CONFIG": "outer.json"})
    assert "ZLAUNCH_DS_CONFIG" not in inside


def test_what_is_not_ours_passes() -> None:
    users = {"PATH": "/bin", "NCCL_DEBUG": "INFO", "EMPTY": "", "ODD": "a\nb\udcff"}
    assert users.items() <= seen(inherited=users).items()


def test_what_was_replaced_is_told() -> None:
    assert replaced({"RANK": "1", "HOME": "/", "MASTER_PORT": "1"}) == ("RANK", "MASTER_PORT")
    assert replaced({"HOME": "/"}) == ()


@pytest.mark.parametrize(
    ("cores", "inherited", "threads"),
    [
        (8, {}, "2"),
        (9, {}, "3"),
        (3, {}, "1"),
        (1, {}, "1"),  # fewer cores than ranks
        (8, {"OMP_NUM_THREADS": "7"}, "7"),
        (8, {"OMP_NUM_THREADS": ""}, "2"),
    ],
)
def test_threads(cores: int, inherited: dict[str, str], threads: str) -> None:
    assert seen(3, cores={0: 64, 1: cores}, inherited=inherited)["OMP_NUM_THREADS"] == threads


def test_async_error_handling_is_the_users_to_set() -> None:
    name = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
    assert seen(inherited={name: "3"})[name] == "3"


@pytest.mark.parametrize(
    ("inherited", "order"),
    [
        ({}, "PCI_BUS_ID"),  # indices are NVML's
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "FASTEST_FIRST"),
        ({"CUDA_VISIBLE_DEVICES": "5,2,0"}, None),  # indices are the user's own
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "FASTEST_FIRST"),
    ],
)
def test_device_order(inherited: dict[str, str], order: str | None) -> None:
    inside = seen(1, inherited=inherited)
    assert inside["CUDA_VISIBLE_DEVICES"] == "2,0,5"
    assert inside.get("CUDA_DEVICE_ORDER") == order


def test_a_node_of_its_own_has_its_own_environment() -> None:
    mine = {"CUDA_VISIBLE_DEVICES": "5", "OMP_NUM_THREADS": "3"}
    theirs = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    changes = {"inherited": {"OMP_NUM_THREADS": "9"}, "on_node": {0: mine, 1: theirs}, "cores": {}}
    first, second = seen(0, **changes), seen(1, **changes)
    assert "CUDA_DEVICE_ORDER" not in first
    assert first["OMP_NUM_THREADS"] == "3"
    assert first["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "1"
    assert second["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    assert second["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "0"
    own = worker_environment(UNEVEN, UNEVEN.workers[1], replace(AROUND, **changes))  # type: ignore[arg-type]
    assert "OMP_NUM_THREADS" not in own  # the agent counts its cores


def test_device_tokens_stay_as_typed() -> None:
    topology = lay_out([Host("a", ("MIG-c0ffee", "GPU-1a2b", 7))])
    env = worker_environment(topology, topology.workers[1], replace(AROUND, cores={0: 1}))
    assert env["CUDA_VISIBLE_DEVICES"] == "MIG-c0ffee,GPU-1a2b,7"


def test_no_device_on_a_cpu() -> None:
    inside = seen(0, ALONE, device="cpu", inherited={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert (inside["DS_ACCELERATOR"], inside["CUDA_VISIBLE_DEVICES"]) == ("cpu", "")
    assert "CUDA_DEVICE_ORDER" not in inside
    assert "DS_ACCELERATOR" not in seen(0, ALONE)


CONFIG = "/state/run7/ds_config.json"
TO_ZERO = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_CONFIG_FILE": CONFIG}


@pytest.mark.parametrize(
    ("target", "device", "ds_config", "precision", "expected"),
    [
        ("plain", "cuda", CONFIG, "fp16", {}),
        ("plain", "cpu", CONFIG, "bf16", {}),
        ("hf", "cuda", CONFIG, "fp16", TO_ZERO),
        ("hf", "cpu", CONFIG, "bf16", TO_ZERO),
        ("hf", "cuda", None, "fp16", {}),
        ("accelerate", "cuda", CONFIG, "fp16", TO_ZERO | {"ACCELERATE_MIXED_PRECISION": "fp16"}),
        ("accelerate", "cuda", CONFIG, "fp32", TO_ZERO | {"ACCELERATE_MIXED_PRECISION": "no"}),
        ("accelerate", "cuda", CONFIG, None, TO_ZERO),
        ("accelerate", "cuda", None, "bf16", {"ACCELERATE_MIXED_PRECISION": "bf16"}),
        (
            "accelerate",
            "cpu",
            CONFIG,
            "bf16",
            {"ACCELERATE_USE_CPU": "true", "ACCELERATE_MIXED_PRECISION": "bf16"},
        ),
    ],
)
def test_targets(
    target: Target,
    device: DeviceKind,
    ds_config: str | None,
    precision: str | None,
    expected: dict[str, str],
) -> None:
    inside = seen(0, ALONE, target=target, device=device, ds_config=ds_config, precision=precision)
    assert {k: v for k, v in inside.items() if k.startswith("ACCELERATE_")} == expected
    assert inside.get("ZLAUNCH_DS_CONFIG") == ds_config
