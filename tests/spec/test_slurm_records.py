"""What Slurm prints of jobs, read: recordings of Slurm 22.05 with and without accounting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from zlaunch.spec.slurm_records import (
    JobRecord,
    read_job,
    read_sacct,
    read_sinfo,
    read_squeue,
    start_of,
)

RECORDINGS = Path(__file__).parents[1] / "recordings" / "slurm"


def recording(name: str) -> str:
    return (RECORDINGS / name).read_text()


def test_accounting_tells_of_each_start_with_its_steps() -> None:
    first, again = read_sacct(recording("node_failed_requeued.sacct"))
    assert (first.job, first.state, first.owner, first.nodes) == (
        "16",
        "NODE_FAIL",
        "0",
        ("n1", "n2"),
    )
    assert (first.start, first.end, first.limit) == (1796100122.0, 1796100123.0, 600.0)
    assert [step.id for step in first.steps] == ["16.batch", "16.0", "16.1"]
    assert (first.steps[2].state, first.steps[2].exit, first.steps[2].nodes) == (
        "CANCELLED", "", ("n2",),
    )  # fmt: skip
    assert (again.state, again.start, again.nodes, again.steps) == ("PENDING", None, (), ())
    assert (again.over, first.over) == (False, True)


def test_who_cancelled_a_job_or_a_step() -> None:
    (job,) = read_sacct(recording("cancelled.sacct"))
    assert (job.state, job.by) == ("CANCELLED", "0")
    (job,) = read_sacct(recording("step_cancelled.sacct"))
    assert (job.state, job.by) == ("FAILED", "")
    assert [(s.id, s.by, s.exit) for s in job.steps if s.by] == [("9.1", "0", "0:9")]


def test_the_controller_tells_of_limits_and_preemption() -> None:
    job = read_job(recording("preempted_in_grace.job"))
    assert job is not None
    assert (job.state, job.reason, job.owner) == ("FAILED", "NonZeroExitCode", "0")
    assert (job.preempted, job.memory, job.limit) == (1796100111.0, "600M a node", 600.0)
    assert job.nodes == ("n1", "n2")
    job = read_job(recording("requeued.job"))
    assert job is not None
    assert (job.state, job.restarts, job.preempted, job.over) == ("PENDING", 1, None, False)


def test_many_jobs_of_the_queue() -> None:
    jobs = {job.job: job for job in read_squeue(recording("all.squeue"))}
    assert len(jobs) == 18
    assert (jobs["11"].state, jobs["11"].end) == ("PREEMPTED", 1796100105.0)
    assert jobs["4"].nodes == ()


def test_nodes_come_once() -> None:
    nodes = {node.name: node for node in read_sinfo(recording("node_failed.sinfo"))}
    assert (nodes["n2"].state, nodes["n2"].reason, nodes["n2"].failed) == ("down", "test", True)
    assert (nodes["n1"].reason, nodes["n1"].failed) == ("", False)


@pytest.mark.parametrize(
    "text", ["", "\n", "slurm_load_jobs error: Invalid job id specified\n", "a|b"]
)
def test_what_is_no_record_is_none(text: str) -> None:
    assert read_job(text) is None
    assert read_sacct(text) == read_squeue(text) == read_sinfo(text) == ()


def test_a_name_that_looks_like_a_field_is_none() -> None:
    line = "JobId=7 JobName=x JobState=RUNNING Reason=None Command=/a JobState=FAILED Restarts=3"
    job = read_job(line)
    assert job is not None
    assert (job.state, job.restarts) == ("RUNNING", 3)
    line = line.replace("x JobState", "x JobState=FAILED UserId=ada(7) GroupId=ada(7) JobState")
    assert read_job(line) == replace(job, owner="7")
    (row,) = read_sacct("7|RUNNING|0:0|5|Unknown|n1|None|UNLIMITED|0|a|FAILED|b\n")
    assert (row.state, row.limit, row.end) == ("RUNNING", None, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:10:00", 600), ("1-02:03:04", 93784), ("05:30", 330), ("UNLIMITED", None), ("", None)],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    (job,) = read_sacct(f"7|TIMEOUT|0:0|5|6|n1|None|{text}|0|x\n")
    assert job.limit == seconds


def test_the_start_that_a_run_was_in() -> None:
    first = JobRecord("7", "NODE_FAIL", start=1000.0, end=1100.0)
    second = JobRecord("7", "RUNNING", start=1300.0, end=1900.0)
    waiting = JobRecord("7", "PENDING")
    known = (first, second, waiting)
    assert start_of(known, 1001.0) is first
    assert start_of(known, 1350.0) is second
    assert start_of(known, 2500.0) is second  # its end is a guess, since it runs
    assert start_of(known[:1], 1200.0) is None  # another job of the same number
    assert start_of(known, 900.0) is None
