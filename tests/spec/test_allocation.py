"""What an environment tells of Slurm's grant, and what ranks are told of it."""

from __future__ import annotations

import pytest

from zlaunch.errors import InputError, SelectionError
from zlaunch.spec.allocation import (
    Allocation,
    check_once,
    expand_nodelist,
    find_allocation,
    within,
)
from zlaunch.spec.hostnames import Host
from zlaunch.spec.slurm_task import as_task
from zlaunch.spec.slurm_variables import for_srun, of_job
from zlaunch.spec.topology import lay_out

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "gpu[01-02],login1"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("gpu[01-03,07],login1", ["gpu01", "gpu02", "gpu03", "gpu07", "login1"]),
        ("a-b[9-11]", ["a-b9", "a-b10", "a-b11"]),
        ("r[1-2]n[1-2],x", ["r1n1", "r1n2", "r2n1", "r2n2", "x"]),
        ("c1,c[3,5]-ib", ["c1", "c3-ib", "c5-ib"]),
    ],
)
def test_a_compressed_list_is_expanded(text: str, names: list[str]) -> None:
    assert list(expand_nodelist(text)) == names


def test_a_list_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InputError, match=r"SLURM_JOB_NODELIST=gpu\[01-: "):
        expand_nodelist("gpu[01-")


def test_an_allocation_is_found() -> None:
    more = {"SLURM_TASKS_PER_NODE": "4(x2),1", "SLURMD_NODENAME": "gpu02"}
    found = find_allocation({**JOB, **more, "SLURM_JOB_END_TIME": "1700000000"})
    nodes = ("gpu01", "gpu02", "login1")
    assert found == Allocation("7", nodes, (4, 4, 1), "gpu02", 1.7e9)
    assert found.first.nodes == ("gpu01",)


@pytest.mark.parametrize("env", [{}, {"SLURM_JOB_ID": "7"}, {"SLURM_JOB_NODELIST": "n1"}])
def test_there_is_none_outside_of_a_job(env: dict[str, str]) -> None:
    assert find_allocation(env) is None


@pytest.mark.parametrize("tasks", ["", "4", "4(x9)", "0,1,1", "many"])
def test_tasks_of_other_nodes_say_nothing(tasks: str) -> None:
    found = find_allocation({**JOB, "SLURM_TASKS_PER_NODE": tasks, "SLURMD_NODENAME": "other"})
    assert found is not None
    assert (found.here, found.end) == ("", None)
    assert found.tasks in ((1, 1, 1), (4, 4, 4))
    assert (found.tasks == (4, 4, 4)) is (tasks == "4(x9)")


def test_one_task_of_many_is_refused() -> None:
    check_once({"SLURM_STEP_NUM_TASKS": "1"})
    check_once({})
    with pytest.raises(InputError, match="3 times"):
        check_once({"SLURM_STEP_NUM_TASKS": "3"})


def test_hosts_outside_of_the_grant_are_refused() -> None:
    found = find_allocation(JOB)
    assert found is not None
    inside = (Host("login1", (0,)), Host("gpu01", ()))
    assert within(found, inside) == inside
    with pytest.raises(SelectionError, match=r"n9: .*job 7: gpu01, gpu02, login1"):
        within(found, (*inside, Host("n9", ())))


def test_srun_does_not_hear_what_the_job_was_asked_for() -> None:
    """It would shape our step: fewer cores, other counts of tasks, labels before each line."""
    kept = {**JOB, "PATH": "/bin", "SLURM_CONF": "/c", "WANDB_MODE": "offline"}
    shaping = {
        "SLURM_NTASKS": "8", "SLURM_CPUS_PER_TASK": "4", "SRUN_CPUS_PER_TASK": "4",
        "SLURM_LABELIO": "1", "SLURM_EXPORT_ENV": "NONE", "SLURM_GPUS_PER_TASK": "1",
        "SLURM_MEM_PER_CPU": "2000", "SLURM_STEP_ID": "0", "PMIX_RANK": "0",
        "SSH_CONNECTION": "a b c d", "RANK": "3", "ZLAUNCH_RUN_ID": "outer",
    }  # fmt: skip
    assert for_srun({**kept, **shaping}) == kept
    given = {"SLURM_CPUS_PER_TASK": "4", "SLURM_GPUS_PER_TASK": "1", "SLURM_MEM_PER_CPU": "2000"}
    assert of_job({**kept, **shaping}) == given


def test_ranks_are_told_what_tasks_would_be() -> None:
    topology = lay_out((Host("a", (0, 1)), Host("b", (0, 1)), Host("c", (5,))))
    last = as_task(topology, topology.workers[4])
    assert last == {
        "SLURM_PROCID": "4",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "2",
        "SLURM_NTASKS": "5",
        "SLURM_NPROCS": "5",
        "SLURM_NNODES": "3",
        "SLURM_TASKS_PER_NODE": "2(x2),1",
    }
    even = lay_out((Host("a", (0, 1)), Host("b", (0, 1))))
    assert as_task(even, even.workers[3])["SLURM_NTASKS_PER_NODE"] == "2"
