"""How Slurm ended a run, told by its own records: a real cluster with slurmdbd and a database."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import accounting
import pytest
from accounting import AccountedCluster, memory_can_be_limited
from cluster import Cluster
from slurm_site import LONG, Site, need

WAIT = """
import signal, sys, time
def end(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
time.sleep(600)
"""
PLAIN = """
import time
print("up", flush=True)
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""
EAT = """
import os, time
print("up", flush=True)
if os.environ["RANK"] == "1":
    held = [b"x" * (64 << 20) for _ in range(20)]
time.sleep(600)
"""
TOOL = (sys.executable, "-m", "zlaunch")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Skip with the reason where there can be none; in CI that is a failure."""
    need(accounting.missing())
    with AccountedCluster() as cluster:
        yield cluster


def zlaunch(site: Site, *words: str, **env: str) -> str:
    """What a command says, typed on a login node."""
    done = subprocess.run(
        [*TOOL, *words], cwd=site.folder, env={**site.env, **env}, capture_output=True, text=True,
        timeout=LONG, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout


def status(site: Site, *words: str, **env: str) -> dict[str, Any]:
    told = json.loads(zlaunch(site, "status", "--json", *words, **env))
    assert isinstance(told, dict)
    return told


def started(site: Site, script: str, *ask: str) -> str:
    """A job with two ranks that are up."""
    site.write("script.py", script)
    words = ("multinode", "--cpu", "1", "--grace", "5", "script.py")
    job = site.sbatch(*words, ask=("-N2", "--no-requeue", *ask))
    site.await_output(job, "| up", 2)
    return job


def scontrol(site: Site, *words: str) -> None:
    done = site.cluster.command("scontrol", *words)
    assert done.returncode == 0, done.stderr


def cancel_step(site: Site, job: str) -> None:
    steps = site.cluster.command("squeue", "-h", "-s", "-j", job, "-o", "%i %N %j").stdout
    (step,) = [line.split()[0] for line in steps.splitlines() if line.endswith("n2 zlaunch")]
    site.cluster.command("scancel", step)


def fail_node(site: Site, _job: str) -> None:
    """It is taken up again once its slurmd has answered."""
    scontrol(site, "update", "nodename=n2", "state=down", "reason=fan")


def preempt(site: Site, _job: str) -> None:
    """By a job of a partition that comes before; ours is left a grace."""
    scontrol(site, "update", "partition=main", "GraceTime=20")
    site.write("other.sh", "#!/bin/sh\nsleep 600\n")
    words = ("sbatch", "-pfirst", "--exclusive", "-N2", "-o/dev/null")
    assert site.cluster.command(*words, str(site.folder / "other.sh")).returncode == 0


ENDS: dict[str, tuple[Callable[[Site, str], Any], tuple[str, int, str], str]] = {
    "cancelled": (
        lambda site, job: site.cluster.command("scancel", job), ("stopped", 143, "job-cancelled"),
        "Slurm's job {job} was cancelled by its user, root",
    ),
    "cancelled, and ranks die at once": (
        lambda site, job: site.cluster.command("scancel", job), ("stopped", 143, "job-cancelled"),
        "Slurm's job {job} was cancelled by its user, root",
    ),
    "a step is cancelled": (
        cancel_step, ("stopped", 143, "job-cancelled"),
        "step {step} on n2 of Slurm's job {job} was cancelled by its user, root",
    ),
    "requeued": (
        lambda site, job: (scontrol(site, "update", f"jobid={job}", "requeue=1"),
                           scontrol(site, "requeue", job)),
        ("stopped", 143, "job-requeued"), "Slurm's job {job} was put back into the queue",
    ),
    "preempted": (
        preempt, ("stopped", 143, "job-preempted"),
        "Slurm's job {job} was preempted: another one took its nodes",
    ),
    "a node fails": (
        fail_node, ("failed", 125, "node-failed"), "node n2 of Slurm's job {job} failed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", ENDS)
def test_each_end_is_told_apart(site: Site, how: str) -> None:
    act, (state, code, cause), title = ENDS[how]
    job = started(site, PLAIN if how.endswith("die at once") else WAIT)
    act(site, job)
    text = site.await_output(job, f"(exit code {code})")
    told = status(site)
    slurm = told["slurm"]
    assert (told["state"], told["exit_code"], slurm["code"]) == (state, code, cause), text
    title = title.format(job=job, step=slurm["step"])
    assert f"zlaunch: cause: {title}\n" in text
    assert told["cause"] == {"code": cause, "ranks": [], "title": title}
    assert zlaunch(site, "diagnose").startswith(title)
    site.nothing_left()


@pytest.mark.skipif(not memory_can_be_limited(), reason="needs the memory controller of cgroups")
def test_memory_that_runs_out_in_a_step(site: Site) -> None:
    job = started(site, EAT, "--mem=400M")
    text = site.await_output(job, "(exit code 137)")
    told = status(site)
    assert (told["state"], told["slurm"]["code"]) == ("failed", "job-out-of-memory"), text
    step = told["slurm"]["step"]
    title = f"memory ran out in step {step} on n2 of Slurm's job {job}, which had 400M a node"
    assert told["cause"] == {"code": "job-out-of-memory", "ranks": [1], "title": title}
    assert f"cause: {title}\n" in text
    assert "less in host memory" in text


def test_a_node_that_is_gone_without_a_word(site: Site) -> None:
    """Slurm does not know it yet, so nothing is made of its record."""
    site.write("script.py", WAIT)
    words = ("multinode", "--cpu", "1", "--grace", "5", "--heartbeat", "3", "script.py")
    job = site.sbatch(*words, ask=("-N2", "--no-requeue"))
    site.await_output(job, "| up", 2)
    site.cluster.kill_node("n2", job)
    text = site.await_output(job, "(exit code 125)")
    assert "the agent on n2 was not heard of for 3 s" in text
    assert "n1:0 | saved" in text
    assert status(site)["slurm"] == {"job": job}
    site.nothing_left()
    site.cluster.start_node("n2")


def test_a_time_limit_with_and_without_a_last_word(site: Site) -> None:
    """A launcher that waits longer than Slurm does is killed with its ranks; Slurm tells later."""
    saves = started(site, WAIT, "--time=1")
    (saved,) = json.loads(zlaunch(site, "ps", "--json"))
    site.write("clings.py", STUBBORN)
    words = ("run", "--cpu", "2", "--grace", "90", "clings.py")
    clings = site.sbatch(*words, ask=("-N1", "--time=1"))
    site.await_output(clings, "| up", 2)
    for job in (saves, clings):
        scontrol(site, "update", f"jobid={job}", "EndTime=now+1")
    text = site.await_output(saves, "(exit code 124)")
    assert text.count("| saved") == 2
    title = f"the time limit of Slurm's job {saves} (1 min) has come"
    assert f"zlaunch: cause: {title}\n" in text
    told = status(site, saved["id"])
    assert (told["state"], told["limit"]) == ("failed", title)
    assert told["slurm"]["code"] == "job-time-limit"

    assert site.await_end(clings) == "TIMEOUT"
    site.nothing_left()
    table = zlaunch(site, "ps")
    assert (table.count(" lost (TIMEOUT) "), table.count(" failed ")) == (1, 1)
    told = status(site)
    assert (told["state"], told["exit_code"]) == ("lost", None)
    assert told["cause"]["code"] == "job-time-limit"
    assert f"Slurm's job {clings} (1 min) has come" in zlaunch(site, "diagnose")
    # Slurm forgets, and is not asked again.
    again = status(site, PATH="/none")
    assert again["slurm"] == told["slurm"]


def test_a_lost_run_where_slurm_does_not_answer_at_once(site: Site) -> None:
    job = started(site, STUBBORN)
    site.cluster.command("scancel", "--batch", "--signal=KILL", job)
    site.await_end(job)
    site.cluster.stop_controller()
    try:
        assert " lost " in zlaunch(site, "ps")
    finally:
        site.cluster.continue_controller()
    assert "lost (FAILED)" in zlaunch(site, "ps")
    assert f"Slurm's job {job} ended as FAILED: killed by signal 9" in zlaunch(site, "status")
