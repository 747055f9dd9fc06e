"""Who a node is: options, then PET_*, Slurm, a Job's index, and torch's names meant for nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.errors import InputError
from zlaunch.spec.joining import DEFAULT_PORT, Membership, describe_nodes, find_membership

PET = {"PET_NNODES": "3", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "pet", "PET_MASTER_PORT": "1111"}
SLURM = {
    "SLURM_NODEID": "2",
    "SLURM_NNODES": "4",
    "SLURM_JOB_NODELIST": "gpu[07-09],gpu11",
    "SLURM_STEP_NUM_TASKS": "4",
}
JOB = {"JOB_COMPLETION_INDEX": "5"}
TORCH = {"RANK": "6", "WORLD_SIZE": "7", "MASTER_ADDR": "torch", "MASTER_PORT": "2222"}
OPTIONS: dict[str, Any] = {"nnodes": 2, "node_rank": 0, "rendezvous": "opt:3333"}


def found(env: dict[str, str], **options: Any) -> tuple[int, int, str, int]:
    who = find_membership(env, **options)
    return who.node_rank, who.nnodes, who.host, who.port


def test_each_source_is_overruled_by_those_before_it() -> None:
    env = {**TORCH}
    assert found(env) == (6, 7, "torch", 2222)
    env |= JOB
    assert found(env) == (5, 7, "torch", 2222)
    env |= SLURM
    assert found(env) == (2, 4, "gpu07", DEFAULT_PORT)
    env |= PET
    assert found(env) == (1, 3, "pet", 1111)
    env["PET_RDZV_ENDPOINT"] = "whole:4444"
    assert found(env) == (1, 3, "whole", 4444)
    assert found(env, **OPTIONS) == (0, 2, "opt", 3333)


def test_who_said_so_is_told() -> None:
    who = find_membership(SLURM, node_rank=1)
    assert who.told_by == ("--node-rank", "SLURM_NNODES", "SLURM_JOB_NODELIST")


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("a.b-c", "a.b-c", DEFAULT_PORT, "a.b-c:29400"),
        ("a:1", "a", 1, "a:1"),
        ("10.0.0.1:65535", "10.0.0.1", 65535, "10.0.0.1:65535"),
        ("[::1]:29401", "::1", 29401, "[::1]:29401"),
        ("[fd00::1]", "fd00::1", DEFAULT_PORT, "[fd00::1]:29400"),
        ("fd00::1", "fd00::1", DEFAULT_PORT, "[fd00::1]:29400"),
        ("fe80::1%eth0", "fe80::1%eth0", DEFAULT_PORT, "[fe80::1%eth0]:29400"),
    ],
)
def test_where(text: str, host: str, port: int, shown: str) -> None:
    who = find_membership({}, nnodes=2, node_rank=1, rendezvous=text)
    assert (who.host, who.port, who.endpoint) == (host, port, shown)


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:0", "a:65536", "a:b", "[a]:1", "[::1", "-a:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--rendezvous") as caught:
        find_membership({}, nnodes=2, node_rank=1, rendezvous=text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("nodelist", "first"),
    [
        ("n1", "n1"),
        ("n[1-4]", "n1"),
        ("n[003,001]", "n003"),
        ("a-[2,5]-ib,b", "a-2-ib"),
        ("a1,b[1-2]", "a1"),
    ],
)
def test_the_first_host_of_slurms_list(nodelist: str, first: str) -> None:
    env = {**SLURM, "SLURM_JOB_NODELIST": nodelist}
    assert find_membership(env).host == first


def test_a_step_may_have_fewer_nodes_than_its_job() -> None:
    env = {
        **SLURM,
        "SLURM_STEP_NODELIST": "gpu[08-09]",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_NODEID": "1",
    }
    assert found(env) == (1, 2, "gpu08", DEFAULT_PORT)


def test_procid_stands_in_for_nodeid() -> None:
    env = {**SLURM, "SLURM_PROCID": "3"}
    del env["SLURM_NODEID"]
    assert find_membership(env).node_rank == 3


def test_one_node_needs_no_more() -> None:
    assert find_membership({}, nnodes=1) == Membership(0, 1, "", 29400, ("--nnodes", "--nnodes"))


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ({}, {}, "how many nodes"),
        ({}, {"nnodes": 2}, "which node"),
        ({}, {"nnodes": 2, "node_rank": 1}, "where node 0 listens"),
        ({}, {"nnodes": 0}, "--nnodes 0"),
        ({}, {"nnodes": 2, "node_rank": 2}, "--node-rank 2: with 2 nodes .--nnodes."),
        ({}, {"nnodes": 2, "node_rank": -1}, "--node-rank -1"),
        ({**PET, "PET_NNODES": "1:4"}, {}, "PET_NNODES 1:4: the number of nodes is fixed"),
        ({**PET, "PET_NNODES": "x"}, {}, "PET_NNODES x"),
        ({**PET, "PET_NODE_RANK": "3"}, {}, "PET_NODE_RANK 3: with 3 nodes .PET_NNODES."),
        ({**PET, "PET_MASTER_PORT": "0"}, {}, "PET_MASTER_PORT 0"),
        ({**PET, "PET_MASTER_ADDR": "a b"}, {}, "PET_MASTER_ADDR a b"),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "8"}, {}, "SLURM_STEP_NUM_TASKS 8: there are 4 nodes"),
        ({**SLURM, "SLURM_JOB_NODELIST": "a[3-1]"}, {}, "SLURM_JOB_NODELIST a.3-1.: .*backwards"),
        ({**SLURM, "SLURM_NODEID": "4"}, {}, "SLURM_NODEID 4: with 4 nodes .SLURM_NNODES."),
        ({**JOB}, {"nnodes": 4}, "JOB_COMPLETION_INDEX 5"),
        ({**TORCH, "LOCAL_RANK": "0"}, {}, "WORLD_SIZE 7: LOCAL_RANK is set too"),
        ({**TORCH, "LOCAL_RANK": "0"}, {"nnodes": 7}, "RANK 6: LOCAL_RANK is set too"),
    ],
)
def test_what_cannot_be_is_refused(env: dict[str, str], options: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        find_membership(env, **options)
    assert caught.value.hint


def test_a_worker_may_be_told_by_options() -> None:
    assert found({**TORCH, "LOCAL_RANK": "0"}, **OPTIONS) == (0, 2, "opt", 3333)


def test_a_batch_script_without_srun_is_node_0_of_its_job() -> None:
    """Its SLURM_NTASKS is of the job, whose steps may be one task a node."""
    env = {**SLURM, "SLURM_NODEID": "0", "SLURM_NTASKS": "32"}
    del env["SLURM_STEP_NUM_TASKS"]
    assert find_membership(env).node_rank == 0


@given(st.dictionaries(st.sampled_from([*PET, *SLURM, *JOB, *TORCH]), st.text(max_size=9)))
def test_any_environment_is_read_or_refused(env: dict[str, str]) -> None:
    try:
        who = find_membership(env)
    except InputError:
        return
    assert 0 <= who.node_rank < who.nnodes


def test_nodes_in_words() -> None:
    assert describe_nodes({1}, 2) == "node 1 of 2"
    assert describe_nodes({3, 1}, 4) == "nodes 1, 3 of 4"
    assert describe_nodes({1, 2, 3, 7}, 9) == "nodes 1-3, 7 of 9"
