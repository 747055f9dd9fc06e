"""What Slurm's own programs print, and what is made of it."""

from __future__ import annotations

import time

import pytest

from zlaunch.backends.slurm_words import ends, failed_node, told, why_lost, without_noise
from zlaunch.launcher.time_left import read_end
from zlaunch.system.slurm_job import read_gpus


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (
            (
                "slurmstepd-n1: error: *** STEP 17.1 ON n1 CANCELLED AT 2026-12-01T00:40:20 DUE TO "
                "TIME LIMIT ***"
            ),
            "the job's time limit has come",
        ),
        (
            "slurmstepd: error: *** STEP 3.0 ON n2 CANCELLED AT 2026-12-01T00:27:42 ***",
            "the job, or this step of it, was cancelled",
        ),
        (
            (
                "slurmstepd: error: *** JOB 9 ON c1 CANCELLED AT 2026-12-01T00:27:42 DUE TO "
                "PREEMPTION ***"
            ),
            "the job was preempted: another one takes its nodes",
        ),
        ("srun: error: Node failure on n2", "node n2 has failed"),
        (
            (
                "slurmstepd: error: Detected 1 oom_kill event in StepId=5.0. Some of the step "
                "tasks have been OOM Killed."
            ),
            "memory ran out, and the kernel killed a process",
        ),
    ],
)
def test_the_end_of_a_job_is_told(line: str, meaning: str) -> None:
    assert list(told(f"other words\n{line}\n")) == [f"Slurm: {meaning} ({line})"]


def test_the_same_as_codes() -> None:
    lines = (
        "slurmstepd-n2: error: *** STEP 17.1 ON n2 CANCELLED AT 2026-12-01T00:40:20 ***",
        "srun: error: Node failure on n2",
        "slurmstepd-n2: error: Detected 1 oom-kill event(s) in StepId=25.1. Some of your ...",
        "slurmstepd-n1: error: Exceeded job memory limit",
        "srun: Job 9 step creation temporarily disabled, retrying",
    )
    assert list(ends("\n".join(lines))) == [
        ("job-cancelled", lines[0]),
        ("node-failed", lines[1]),
        ("job-out-of-memory", lines[2]),
        ("job-out-of-memory", lines[3]),
    ]
    assert [failed_node(line) for line in lines[:2]] == ["", "n2"]


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (
            "srun: error: Unable to confirm allocation for job 9: Invalid job id specified",
            "the job is over; `unset SLURM_JOB_ID` to go on without one",
        ),
        (
            "srun: Job 9 step creation temporarily disabled, retrying (Requested nodes are busy)",
            "other steps hold all of it",
        ),
        (
            (
                "srun: error: Unable to create step for job 9: Job/step already completing or "
                "completed"
            ),
            "the job is ending",
        ),
        (
            "srun: error: Task launch for StepId=9.0 failed on node n2: Job credential expired",
            "Slurm's credential for the step has expired",
        ),
        (
            (
                "srun: error: Task launch for StepId=9.0 failed on node n2: Communication "
                "connection failure"
            ),
            "its slurmd does not start it",
        ),
    ],
)
def test_why_there_is_no_agent_is_said(line: str, meaning: str) -> None:
    assert why_lost(f"srun: launch/slurm: x\n{line}") == f"{meaning} ({line})"


def test_words_of_others_mean_nothing() -> None:
    """A script may print whatever it likes; it is no program of Slurm's."""
    words = "*** STEP 1.0 ON n1 CANCELLED AT now ***\nInvalid job id specified\nTraceback"
    assert not list(told(words))
    assert why_lost(words) is None
    assert without_noise(words) == words


def test_what_is_said_of_every_step_is_left_out() -> None:
    noise = (
        "srun: cluster configuration lacks support for cpu binding",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "slurmstepd: error: couldn't chdir to `/x': No such file or directory: going to /tmp",
    )
    assert without_noise("\n".join((*noise, "srun: error: something else"))) == (
        "srun: error: something else"
    )


def test_gpus_of_each_node_are_read() -> None:
    text = """JobId=7 JobName=x
   JOB_GRES=gpu:a100:4,gpu:v100:2
     Nodes=n[1-2],x CPU_IDs=0 Mem=0 GRES=gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:2),shard:3(0/3)
     Nodes=n4 CPU_IDs=0 Mem=0 GRES=
     Nodes=n5 CPU_IDs=0-3 Mem=0 GRES=gpu:8(IDX:0,2-8)
"""
    both = "a100:2,v100:1"
    assert read_gpus(text) == {"n1": both, "n2": both, "x": both, "n5": "8"}
    assert read_gpus("Nodes=n1 CPU_IDs=0") == {}


def test_the_end_of_the_time_is_read() -> None:
    text = "   StartTime=2026-12-01T00:27:24 EndTime=2026-12-01T00:37:24 Deadline=N/A"
    assert read_end(text) == time.mktime((2026, 12, 1, 0, 37, 24, 0, 0, -1))
    assert read_end("   StartTime=2026-12-01T00:27:24 EndTime=Unknown Deadline=N/A") is None
