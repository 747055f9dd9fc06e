"""How Slurm ended a job, told apart by recordings of a real Slurm 22.05, with two nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from zlaunch.insight.evidence import Cause
from zlaunch.insight.job_causes import cause, of_evidence
from zlaunch.insight.job_ends import Window, judge, on_nodes
from zlaunch.run.job_end import JobEnd
from zlaunch.spec.slurm_records import JobRecord, read_job, read_sacct, read_sinfo, start_of

RECORDINGS = Path(__file__).parents[1] / "recordings" / "slurm"
NAMES = {"0": "root", "1000": "ada"}
# Recording: code, words; and the code without accounting.
ENDS = {
    "time_limit": ("job-time-limit", "the time limit of Slurm's job 21 (1 min) has come", None),
    "cancelled": ("job-cancelled", "Slurm's job 8 was cancelled by its user, root", None),
    "preempted": (
        "job-preempted", "Slurm's job 11 was preempted: another one took its nodes", None,
    ),
    "preempted_in_grace": (
        "job-preempted", "Slurm's job 13 was preempted: another one took its nodes", None,
    ),
    "requeued": ("job-requeued", "Slurm's job 17 was put back into the queue", None),
    "node_failed": ("node-failed", "node n2 of Slurm's job 20 failed", None),
    # The record of a node's failure is lost with the start that it ended.
    "node_failed_requeued": ("node-failed", "node n2 of Slurm's job 16 failed", "job-requeued"),
    "out_of_memory": (
        "job-out-of-memory",
        "memory ran out in step 10.1 on n2 of Slurm's job 10, which had 400M a node",
        "job-ended",
    ),
    "step_cancelled": (
        "job-cancelled", "step 9.1 on n2 of Slurm's job 9 was cancelled by its user, root",
        "job-ended",
    ),
    "launcher_killed": (
        "job-ended", "Slurm's job 18 ended as FAILED: killed by signal 9", None,
    ),
}  # fmt: skip


def records(name: str) -> tuple[tuple[JobRecord, ...], JobRecord]:
    job = read_job((RECORDINGS / f"{name}.job").read_text())
    assert job is not None
    return read_sacct((RECORDINGS / f"{name}.sacct").read_text()), job


def name_of(number: str) -> str:
    return NAMES.get(number, number)


@pytest.mark.parametrize("name", ENDS)
def test_each_end_is_told_apart(name: str) -> None:
    code, title, _ = ENDS[name]
    known, controller = records(name)
    assert known[0].start is not None
    window = Window(known[0].start + 1)
    record = start_of(known, window.began)
    assert record is known[0]
    end = judge(record, window, controller, name_of)
    assert (end.code, cause(end).title) == (code, title)
    assert JobEnd.from_json(end.to_json()) == end
    without = judge(record, window, None, name_of)  # slurmctld has forgotten it
    assert without.code == (code if name != "preempted_in_grace" else "job-ended")


@pytest.mark.parametrize("name", ENDS)
def test_and_without_accounting_as_far_as_possible(name: str) -> None:
    code, _, without = ENDS[name]
    known, controller = records(name)
    assert known[0].start is not None
    end = judge(controller, Window(known[0].start + 1), controller, name_of)
    assert end.code == (without or code)
    assert end.by == ""


def test_who_it_was() -> None:
    job = JobRecord("7", "CANCELLED", by="1000", owner="1000", start=1.0, end=2.0)
    window = Window(1.0)
    title = cause(judge(job, window, None, name_of)).title
    assert title == "Slurm's job 7 was cancelled by its user, ada"
    told = cause(judge(replace(job, by="0"), window, None, name_of))
    assert told.title == "Slurm's job 7 was cancelled by root (the job is ada's)"
    told = cause(judge(replace(job, by="1001"), window, None, name_of))
    assert told.title == "Slurm's job 7 was cancelled by 1001, an administrator (the job is ada's)"
    told = cause(judge(replace(job, by=""), window, None, name_of))
    assert (told.title, told.mends) == (
        "Slurm's job 7 was cancelled", ("by whom only Slurm's accounting knows (sacct)",),
    )  # fmt: skip


def test_what_accounting_does_not_know_yet_the_controller_does() -> None:
    """A job that is cancelled soon has in its first record no owner but root, and no limit."""
    early = JobRecord("7", "CANCELLED", by="0", owner="0", start=1.0, end=2.0)
    now = JobRecord("7", "CANCELLED", owner="1000", start=1.0, end=2.0, limit=600.0)
    end = judge(early, Window(1.0), now, name_of)
    assert (end.by, end.owner, end.limit) == ("root", "ada", 600.0)


def test_nothing_ended_a_job_that_runs_on_or_is_done() -> None:
    for state in ("RUNNING", "COMPLETED"):
        job = JobRecord("7", state, start=1.0, end=2.0)
        assert judge(job, Window(1.0)).code == ""


def test_a_step_of_another_run_is_none_of_this_one() -> None:
    known, _ = records("out_of_memory")
    began = known[0].start or 0.0
    assert judge(known[0], Window(began)).code == "job-out-of-memory"
    assert judge(known[0], Window(began + 100, began + 200)).code == "job-ended"
    steps = tuple(replace(step, name="other") for step in known[0].steps)
    assert judge(replace(known[0], steps=steps), Window(began)).code == "job-ended"


def test_nodes_that_are_down_are_named_with_the_reason() -> None:
    known, _ = records("node_failed")
    end = judge(replace(known[0], steps=()), Window(known[0].start or 0.0))
    assert cause(end).title == "a node of Slurm's job 20 failed"
    end = on_nodes(end, read_sinfo((RECORDINGS / "node_failed.sinfo").read_text()))
    told = cause(end)
    assert (told.title, told.details) == ("node n2 of Slurm's job 20 failed", ("Slurm: test",))
    assert "--exclude=n2" in told.mends[0]


def test_what_ranks_say_is_set_beside_it() -> None:
    killed = Cause("host-out-of-memory", (1,), "SIGKILL", (), ("fewer ranks",))
    loss = Cause("exception", (0,), "ValueError")
    trouble = Cause("zlaunch-trouble", (), "n2 was lost")
    memory, other = of_evidence([killed, loss, trouble], JobEnd("job-out-of-memory", "7"))
    assert (memory.ranks, other) == ((1,), loss)
    assert "fewer ranks" in memory.mends
    assert [one.code for one in of_evidence([killed], JobEnd("node-failed", "7"))] == [
        "node-failed"
    ]


@pytest.mark.parametrize("data", [None, 3, [], {"code": 3}, {"job": None}])
def test_what_is_no_end_is_none(data: object) -> None:
    assert JobEnd.from_json(data) is None
