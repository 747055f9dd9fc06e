"""Runs in allocations of a real Slurm: two nodes on this machine."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from cluster import Cluster
from slurm_site import FAIL, LONG, WAIT, Site, is_srun

from zlaunch.spec.allocation import expand_nodelist

SAY = """
import json, os
names = ("RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
own = {k: v for k, v in os.environ.items() if k.startswith("SLURM") or k in names}
print("env", json.dumps(own), flush=True)
"""


def environments(out: str) -> dict[int, dict[str, str]]:
    return {int(env["RANK"]): env for env in _all_environments(out)}


def _all_environments(out: str) -> list[dict[str, str]]:
    lines = [line for line in out.splitlines() if "| env " in line]
    return [json.loads(line.partition("| env ")[2]) for line in lines]


def test_an_interactive_run_takes_all_nodes_of_the_job(site: Site) -> None:
    site.write("say.py", SAY)
    ask = ("-N2", "--ntasks-per-node=2", "--job-name=mine")
    code, out, err = site.run("multinode", "--device", "cpu", "say.py", ask=ask)
    assert code == 0, err
    assert "4 ranks on n1:2, n2:2" in err
    ranks = environments(out)
    assert sorted(ranks) == [0, 1, 2, 3]
    for rank, env in ranks.items():
        # What Slurm would tell its own tasks, not what it told the agent.
        assert env["SLURM_PROCID"] == str(rank)
        assert env["SLURM_LOCALID"] == str(rank % 2)
        assert env["SLURM_NODEID"] == str(rank // 2)
        assert (env["SLURM_NTASKS"], env["SLURM_NNODES"]) == ("4", "2")
        assert env["SLURM_TASKS_PER_NODE"] == "2(x2)"
        assert env["SLURMD_NODENAME"] == f"n{rank // 2 + 1}"
        assert env["SLURM_JOB_NAME"] == "mine"
        assert not [name for name in env if name.startswith("SLURM_STEP_")]


def test_every_byte_arrives_as_it_was_written(site: Site) -> None:
    """Slurm would hold back what is no line; its terminal must not change what passes."""
    text = "import os\nd = bytes(range(256)) * 2000\nwhile d:\n    d = d[os.write(1, d):]\n"
    site.write("bytes.py", text)
    code, _, err = site.run("multinode", "--cpu", "1", "--console-ranks", "0", "bytes.py")
    assert code == 0, err
    for rank in (0, 1):
        (log,) = site.folder.glob(f"runs/runs/*/logs/rank-{rank}.log")
        assert log.read_bytes() == bytes(range(256)) * 2000


def test_gpus_are_those_that_slurm_gave_each_node(site: Site) -> None:
    site.write("say.py", SAY)
    options = ("multinode", "--no-preflight")
    code, out, err = site.run(*options, "say.py", ask=("-N2", "--gpus=3"))
    assert code == 0, err
    assert "3 ranks on n1:2, n2:1" in err
    assert [env["CUDA_VISIBLE_DEVICES"] for env in environments(out).values()].count("0,1") == 2
    code, out, err = site.run(*options, "-i", "n1:1@n2", "say.py", ask=("-N2", "--gpus=3"))
    assert {rank: env["CUDA_VISIBLE_DEVICES"] for rank, env in environments(out).items()} == {
        0: "1",
        1: "0",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hosts", "n2:1,n7:1", "--device", "cpu"), ": n1, n2\n"),
        (("--include", "n3", "--device", "cpu"), "hosts are n1, n2\n"),
        (("--num-nodes", "3", "--device", "cpu"), "the 2 hosts of Slurm's job"),
        ((), "n1 has no GPU that could be found"),
    ],
)
def test_nothing_but_the_grant_is_used(site: Site, words: tuple[str, ...], said: str) -> None:
    site.write("say.py", SAY)
    code, out, err = site.run("multinode", *words, "say.py")
    assert (code, out) == (2, "")
    assert said in err


def test_hosts_and_numbers_within_the_grant(site: Site) -> None:
    site.write("say.py", SAY)
    code, out, err = site.run("multinode", "--hosts", "n2:2,n1:1", "--device", "cpu", "say.py")
    assert code == 0, err
    nodes = {rank: env["SLURMD_NODENAME"] for rank, env in environments(out).items()}
    assert nodes == {0: "n2", 1: "n2", 2: "n1"}


def test_run_goes_to_the_node_when_it_is_typed_elsewhere(site: Site) -> None:
    """The shell of salloc is on a login node; a batch script is on the first node."""
    site.write("say.py", SAY)
    code, out, err = site.run("run", "--cpu", "2", "say.py")
    assert code == 0, err
    assert {env["SLURMD_NODENAME"] for env in environments(out).values()} == {"n1"}
    assert "1 node is left idle" in err
    job = site.sbatch("run", "--cpu", "2", "say.py", ask=("-N1", "-n2", "-w", "n2"))
    assert site.await_end(job) == "COMPLETED"
    text = site.output(job)
    assert "2 ranks on the CPU" in text
    assert [env["SLURM_PROCID"] for env in environments(text).values()] in (["0", "1"], ["1", "0"])


def test_a_sweep_of_runs_is_left_alone(site: Site) -> None:
    """Each task of a step may run one of its own, and tells its rank which task it is."""
    site.write("say.py", SAY)
    code, out, err = site.run("run", "--cpu", "1", "say.py", ask=("-N2", "srun"))
    assert code == 0, err
    assert sorted(env["SLURM_PROCID"] for env in _all_environments(out)) == ["0", "1"]


def test_a_failure_crosses_nodes(site: Site) -> None:
    site.write("fail.py", FAIL)
    job = site.sbatch("multinode", "--cpu", "2", "--grace", "2", "fail.py")
    assert site.await_end(job) == "FAILED"
    text = site.output(job)
    assert "rank 3 on n2" in text
    assert "exit code 7" in text
    assert "ExitCode=7:0" in site.cluster.command("scontrol", "show", "job", job).stdout
    site.nothing_left()


@pytest.mark.parametrize("way", ["salloc", "sbatch"])
def test_scancel_lets_ranks_save_and_leaves_nothing(site: Site, way: str) -> None:
    site.write("wait.py", WAIT)
    words = ("multinode", "--cpu", "2", "wait.py")
    if way == "salloc":
        process = site.salloc(*words)
        site.up(process, 4)
        job = site.job()
        site.cluster.command("scancel", job)
        out, err = process.communicate(timeout=LONG)
        assert process.returncode == 143
    else:
        job = site.sbatch(*words)
        site.await_output(job, "| up", 4)
        site.cluster.command("scancel", job)
        assert site.await_end(job) == "CANCELLED"
        out = err = site.await_output(job, "was stopped by SIGTERM (exit code 143)")
    assert out.count("| saved") == 4
    assert err.count("zlaunch: Slurm: the job") == 1
    assert f"zlaunch: cause: Slurm's job {job} was cancelled\n" in err  # without accounting
    assert "srun:" not in out
    site.nothing_left()


def test_a_run_on_the_node_of_the_batch_script_is_told_of_its_job_too(site: Site) -> None:
    site.write("wait.py", WAIT)
    job = site.sbatch("run", "--cpu", "2", "wait.py", ask=("-N1",))
    site.await_output(job, "| up", 2)
    site.cluster.command("scancel", job)
    text = site.await_output(job, "(exit code 143)")
    assert text.count("| saved") == 2
    assert f"zlaunch: cause: Slurm's job {job} was cancelled\n" in text
    site.nothing_left()


def test_a_warning_goes_to_the_ranks_and_the_time_left_is_told(site: Site) -> None:
    """--signal=B:USR1@S comes S seconds before the end, up to a minute early."""
    site.write("wait.py", WAIT)
    ask = ("-N2", "--time=1", "--signal=B:USR1@20")
    job = site.sbatch("multinode", "--cpu", "1", "wait.py", ask=ask)
    text = site.await_output(job, "| warned", 2)
    assert "SIGUSR1: passed on to all ranks" in text
    assert f"the time of Slurm's job {job} ends in " in text
    assert "| saved" not in text
    site.cluster.command("scancel", job)
    site.await_output(job, "| saved", 2)


def test_two_jobs_on_the_same_nodes_do_not_disturb_each_other(site: Site) -> None:
    site.write("wait.py", WAIT)
    site.write("fail.py", FAIL)
    steady = site.sbatch("multinode", "--cpu", "2", "wait.py")
    site.await_output(steady, "| up", 4)
    code, _, _ = site.run("multinode", "--cpu", "2", "--grace", "1", "fail.py")
    assert code == 7
    assert site.cluster.job_state(steady) == "RUNNING"
    site.cluster.command("scancel", steady)
    assert site.await_output(steady, "| saved", 4).count("failed") == 0


def test_a_killed_launcher_leaves_nothing(site: Site) -> None:
    site.write("wait.py", WAIT)
    process = site.salloc("multinode", "--cpu", "2", "--grace", "1", "wait.py")
    site.up(process, 4)
    (launcher,) = [pid for pid in site.alive() if _parent(pid) == process.pid]
    os.kill(launcher, signal.SIGKILL)
    process.communicate(timeout=LONG)
    site.nothing_left()


def test_a_killed_srun_is_a_lost_node_and_leaves_nothing(site: Site) -> None:
    site.write("wait.py", WAIT)
    words = ("multinode", "--cpu", "2", "--grace", "1", "--heartbeat", "4", "wait.py")
    process = site.salloc(*words)
    site.up(process, 4)
    sruns = [pid for pid in site.alive() if is_srun(pid, "n2")]
    assert sruns
    for pid in sruns:
        os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=LONG)
    assert process.returncode == 125
    assert "the agent on n2 has ended" in err
    site.nothing_left()


def test_what_is_wrong_with_the_job_is_told(site: Site) -> None:
    site.write("say.py", SAY)
    gone = {"SLURM_JOB_ID": "999999", "SLURM_JOB_NODELIST": "n[1-2]"}
    code, _, err = site.run("multinode", "--cpu", "1", "say.py", ask=("-N1", "env", *_set(gone)))
    assert code == 125
    assert "n1: the job is over; `unset SLURM_JOB_ID`" in err
    code, _, err = site.run("multinode", "--cpu", "1", "say.py", ask=("-N1", "env", "PATH=/none"))
    assert (code, err.count("srun is not in PATH")) == (2, 1)
    assert "--backend ssh" in err
    code, _, err = site.run("run", "--gpus", "0,1", "say.py", ask=("-N1",))
    assert code == 2
    assert "--include n1:0,1" in err
    code, _, err = site.run("multinode", "--cpu", "1", "say.py", ask=("-N2", "srun"))
    assert code == 2
    assert "srun has started zlaunch 2 times" in err


def test_doctor_looks_at_all_granted_nodes(site: Site) -> None:
    code, out, err = site.run("doctor", "--device", "cpu", "--json")
    assert code == 0, err
    assert '"n1"' in out
    assert '"n2"' in out


def _set(env: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.parametrize("text", ["gpu[01-03,07],login1", "r[1-2]n[8-11]", "a,b[1,3],c[7-8]"])
def test_lists_are_expanded_as_slurm_does(cluster: Cluster, text: str) -> None:
    said = cluster.command("scontrol", "show", "hostnames", text).stdout.split()
    assert list(expand_nodelist(text)) == said
