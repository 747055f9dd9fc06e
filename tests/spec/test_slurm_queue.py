"""What squeue prints, read and told; lines as Slurm 22.05 printed them."""

from __future__ import annotations

import pytest

from zlaunch.spec.slurm_queue import Job, describe_wait, find_job, parse_queue

PRINTED = """\
2_1|2|1|PENDING|N/A|N/A|JobArrayTaskLimit
2_0|2|0|RUNNING|2026-12-01T04:35:08|2026-12-01T04:45:08|None
1|1|N/A|FAILED|2026-12-01T04:35:03|2026-12-01T04:35:07|NonZeroExitCode
4|4|N/A|PENDING|2026-12-01T06:00:00|N/A|ReqNodeNotAvail, UnavailableNodes:n[1-2]|x
slurm_load_jobs error: something
5|5|N/A|CANCELLED by 0|N/A|N/A|None
"""


def test_a_queue_is_read() -> None:
    jobs = parse_queue(PRINTED)
    assert sorted(jobs) == ["1", "2_0", "2_1", "4", "5"]
    assert jobs["2_1"] == Job("2_1", "PENDING", "JobArrayTaskLimit", array="2", task="1")
    assert jobs["1"].end == "2026-12-01T04:35:07"
    waits, over = ({j.id for j in jobs.values() if getattr(j, w)} for w in ("waits", "over"))
    assert (waits, over) == ({"2_1", "4"}, {"1", "5"})
    assert [j.id for j in jobs.values() if j.cancelled] == ["5"]


@pytest.mark.parametrize(
    ("state", "waits", "over"),
    [
        ("PENDING", True, False), ("REQUEUE_HOLD", True, False), ("COMPLETING", False, False),
        ("CONFIGURING", False, False), ("SUSPENDED", False, False), ("TIMEOUT", False, True),
        ("NODE_FAIL", False, True), ("PREEMPTED", False, True), ("OUT_OF_MEMORY", False, True),
        ("COMPLETED", False, True), ("BOOT_FAIL", False, True), ("DEADLINE", False, True),
    ],
)  # fmt: skip
def test_a_job_waits_or_goes_on_or_is_over(state: str, waits: bool, over: bool) -> None:
    assert (Job("1", state).waits, Job("1", state).over) == (waits, over)


def test_of_an_array_slurm_forgets_tasks_that_were_cancelled_while_they_waited() -> None:
    jobs = parse_queue(PRINTED)
    assert find_job(jobs, "2_0") is jobs["2_0"]
    gone = find_job(jobs, "2_3")
    assert gone is not None
    assert gone.cancelled
    assert find_job(jobs, "7_3") is None
    assert find_job(jobs, "9") is None


def test_why_a_job_waits() -> None:
    jobs = parse_queue(PRINTED)
    assert describe_wait(jobs["2_1"]) == (
        "Slurm's job 2_1: so many tasks of its array run already (JobArrayTaskLimit)"
    )
    assert describe_wait(jobs["4"]) == (
        "Slurm's job 4: ReqNodeNotAvail, UnavailableNodes:n[1-2]|x; "
        "to start about 2026-12-01 06:00:00"
    )
    assert describe_wait(Job("3", "PENDING")) == "Slurm's job 3: pending"
