"""Runs that are submitted to a real Slurm of two nodes, from a login node."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from login import Login
from slurm_site import FAIL, LONG, WAIT, Site, is_srun

SAY = """
import os, sys
print("said", os.environ["RANK"], os.environ.get("SLURM_ARRAY_TASK_ID"), sys.argv[1:], flush=True)
for line in range(40):
    print("line", line, flush=True)
"""
# Saves when it is warned, and is done the second time.
GOES_ON = """
import os, signal, sys, time
attempt = os.environ["ZLAUNCH_RESTART_COUNT"]
print("attempt", attempt, flush=True)
if attempt != "0":
    print("resumed", os.environ["ZLAUNCH_RUN_ID"], flush=True)
    sys.exit(0)
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
time.sleep(600)
"""
TRIES = """
import os, sys, time
attempt = int(os.environ["ZLAUNCH_RESTART_COUNT"])
print("attempt", attempt, flush=True)
if attempt == 0 and os.environ["RANK"] == "1":
    sys.exit(7)
time.sleep(600 if attempt < 2 else 0)
"""
ON_TWO = ("--nodes", "2", "--cpu", "2")


@pytest.fixture
def login(site: Site) -> Login:
    for name, text in (
        ("say", SAY), ("wait", WAIT), ("fail", FAIL), ("goes_on", GOES_ON), ("tries", TRIES),
    ):  # fmt: skip
        site.write(f"{name}.py", text)
    return Login(site)


def test_a_submitted_run_is_known_at_once_and_runs_on_all_nodes(login: Login) -> None:
    words = (*ON_TWO, "--name", "first", "say.py", "a b", "--token", "geheimnis", "$HOME")
    run = login.submit(*words, MY_SECRET_KEY="geheimnis-2")
    assert login.record(run)["state"] in {"queued", "running", "finished"}
    assert login.end(run) == 0
    text = login.console(run)
    assert "4 ranks on n1:2, n2:2" in text
    assert text.count("['a b', '--token', 'geheimnis', '$HOME']") == 4
    told = login.status("first")
    assert (told["state"], told["exit_code"], told["job"]) == ("finished", 0, login.job(run))
    facts = login.job_facts(run)
    assert "ExitCode=0:0" in facts
    script = (login.runs / run / "batch.sh").read_text()
    kept = [script, facts, *(p.read_text() for p in (login.runs / run).glob("*.json*"))]
    assert not [text for text in kept if "geheim" in text]
    login.site.nothing_left()


def test_a_failure_crosses_nodes_and_is_the_job_s_exit_code(login: Login) -> None:
    run = login.submit(*ON_TWO, "--grace", "2", "fail.py")
    assert login.end(run) == 7
    assert "rank 3 on n2" in login.console(run)
    assert "ExitCode=7:0" in login.job_facts(run)
    _code, out, _ = login.type("diagnose", run)
    assert "exit code 7" in out
    login.site.nothing_left()


def test_a_dry_run_submits_nothing(login: Login) -> None:
    words = ("--time", "1:00:00", "--gpus-per-node", "1", "--requeue", "--sbatch", "--exclusive")
    code, out, err = login.type("submit", "--nodes", "2", *words, "--dry-run", "say.py", "x")
    assert (code, err) == (0, "")
    for line in (
        "--nodes=2",
        "--gpus-per-node=1",
        "--requeue",
        "--signal=B:USR1@120",
        "--exclusive",
    ):
        assert f"#SBATCH {line}\n" in out
    assert "say.py" not in out.replace("--job-name=say.py", "")
    assert login.left() == []
    assert login.cluster.command("squeue", "-h").stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--partition", "nope", "say.py"), "sbatch refuses: invalid partition specified: nope"),
        (("--sbatch", "--gres=gpu:9", "say.py"), "Requested node configuration is not available"),
        (("nothing.py",), "nothing.py"),
        (("--sbatch", "--array=3", "say.py"), "zlaunch submit --array"),
        (("--array", "3-1", "say.py"), "--array 3-1"),
        (("--signal-before", "soon", "say.py"), "--signal-before soon"),
        (("--time", "1", "--requeue", "say.py"), "--time 1 is no longer than that"),
        (("--gpus-per-node", "1", "say.py"), "--cpu and --gpus-per-node contradict each other"),
        (("--set", "zero_optimization.stage=9", "say.py"), "zero_optimization.stage"),
    ],
)
def test_what_is_wrong_is_told_and_leaves_nothing(
    login: Login, words: tuple[str, ...], said: str
) -> None:
    code, out, err = login.type("submit", "--cpu", "1", "--nodes", "1", *words)
    assert (code, out) == (2, ""), err
    assert said in err
    assert login.left() == []


def test_without_sbatch_the_way_out_is_named(login: Login) -> None:
    code, _, err = login.type("submit", "--cpu", "1", "say.py", PATH="/nowhere")
    assert (code, "sbatch is not in PATH" in err) == (2, True), err


def test_a_run_waits_in_the_queue_and_is_followed_from_there(login: Login) -> None:
    run = login.submit(*ON_TWO, "--sbatch", "--hold", "--name", "later", "say.py")
    code, out, _ = login.type("ps")
    assert " queued " in out
    assert "is held: scontrol release (JobHeldUser)" in out
    told = login.status("later")
    assert (told["state"], told["exit_code"], told["ranks"]) == ("queued", None, [])
    code, _, err = login.type("rm", run)
    assert (code, "is queued" in err) == (2, True)
    code, _, _ = login.type("wait", run, "--timeout", "0.5")
    assert code == 124
    followers = [login.start("logs", "tail", run), login.start("attach", run)]
    for follower in followers:
        assert follower.stderr is not None
        assert "is queued: Slurm's job" in follower.stderr.readline()
    login.cluster.command("scontrol", "release", login.job(run))
    for follower in followers:
        out, err = follower.communicate(timeout=LONG)
        assert follower.returncode == 0, err
        for rank in range(4):
            lines = [
                line for line in out.splitlines() if line.startswith(f"n{rank // 2 + 1}:{rank}")
            ]
            assert len(lines) == 41, out
    assert login.end(run) == 0


def test_the_reason_and_the_estimate_are_slurms(login: Login) -> None:
    holder = login.submit("--nodes", "2", "--cpu", "1", "--sbatch", "--exclusive", "wait.py")
    login.await_console(holder, "| up", 2)
    run = login.submit("--nodes", "2", "--cpu", "1", "--sbatch", "--exclusive", "say.py")
    why = login.status(run)["waits_for"]
    assert why.startswith(f"Slurm's job {login.job(run)}: "), why
    assert "(Resources)" in why or "(Priority)" in why
    assert login.type("stop", "--now", holder)[0] == 0
    assert login.end(run) == 0


@pytest.mark.parametrize("way", ["stop", "scancel"])
def test_a_pending_run_that_is_ended_is_over(login: Login, way: str) -> None:
    run = login.submit(*ON_TWO, "--sbatch", "--hold", "say.py")
    if way == "stop":
        code, out, err = login.type("stop", run)
        assert code == 0, err
        assert "was stopped by SIGTERM (exit code 143)" in out
    else:
        login.cluster.command("scancel", login.job(run))
        assert login.end(run) == 143
    record = login.record(run)
    assert (record["state"], record["exit_code"]) == ("stopped", 143)
    assert record["ended"] >= record["started"]
    assert run in login.type("ps")[1]
    assert login.cluster.job_state(login.job(run)) == "CANCELLED"
    assert login.type("rm", run)[0] == 0
    assert login.left() == []


@pytest.mark.parametrize("where", ["there", "here"])
def test_a_running_run_is_stopped(login: Login, where: str) -> None:
    run = login.submit(*ON_TWO, "--requeue", "wait.py")
    login.await_console(run, "| up", 4)
    if where == "there":
        code, out, err = login.type("signal", run, "USR1")
        assert code == 0, err
        login.await_console(run, "| warned", 4)
        code, out, err = login.type("stop", run)
    else:
        code, out, err = login.site.tool("stop", run)
    assert code == 0, err
    assert "was stopped by SIGTERM (exit code 143)" in out
    assert login.console(run).count("| saved") == 4
    assert "ExitCode=143:0" in login.job_facts(run)
    login.site.nothing_left()


def test_where_no_lock_is_seen_slurm_tells_how_a_run_stands(login: Login) -> None:
    """As over a file system that keeps locks to each machine."""
    run = login.submit("--nodes", "2", "--cpu", "1", "wait.py")
    login.await_console(run, "| up", 2)
    lock = login.runs / run / "lock"
    lock.unlink()
    lock.touch()
    assert login.status(run)["state"] == "running"
    followers = [login.start("logs", "tail", run), login.start("attach", "--from-start", run)]
    assert login.type("wait", run, "--timeout", "1")[0] == 124
    assert login.type("rm", run)[0] == 2
    code, out, err = login.type("stop", run)
    assert (code, "was stopped by SIGTERM (exit code 143)" in out) == (0, True), err
    for follower, ended in zip(followers, (0, 143), strict=True):
        out, err = follower.communicate(timeout=LONG)
        assert (follower.returncode, out.count("| saved")) == (ended, 2), out + err
    login.site.nothing_left()


def test_stop_now_ends_the_grace(login: Login) -> None:
    login.site.write(
        "deaf.py",
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
        "print('up', flush=True)\ntime.sleep(600)\n",
    )
    run = login.submit("--nodes", "2", "--cpu", "1", "--grace", "300", "deaf.py")
    login.await_console(run, "| up", 2)
    code, _out, err = login.type("stop", "--now", run)
    assert code == 0, err
    assert login.record(run)["exit_code"] == 143
    login.site.nothing_left()


def test_before_its_time_is_over_a_run_saves_and_goes_on(login: Login) -> None:
    # Slurm warns up to 30 s early: of 50 s it may as soon as the job starts, which then fails.
    words = (*ON_TWO, "--time", "1", "--requeue", "--signal-before", "20s", "goes_on.py")
    run = login.submit(*words)
    follower = login.start("attach", run)
    assert login.end(run) == 0
    text = login.console(run)
    assert text.count("| saved") == 4
    assert (
        f"run {run} goes back into the queue, as attempt 1: the job's time is nearly over" in text
    )
    assert text.count(f"| resumed {run}") == 4
    assert [login.log(run, rank, 1).count("resumed") for rank in range(4)] == [1] * 4
    assert "Restarts=1" in login.job_facts(run)
    assert "ExitCode=0:0" in login.job_facts(run)
    out, _ = follower.communicate(timeout=LONG)
    assert (follower.returncode, out.count("| resumed")) == (0, 4)
    login.site.nothing_left()


def test_after_a_failed_attempt_and_a_lost_node_a_run_goes_on(login: Login) -> None:
    words = ("--max-restarts", "1", "--healthy-after", "0", "--grace", "2", "--heartbeat", "4")
    run = login.submit(*ON_TWO, "--requeue", *words, "tries.py")
    login.await_console(run, "| attempt 1", 4)
    for pid in login.site.alive():
        if is_srun(pid, "n2"):
            os.kill(pid, signal.SIGKILL)
    login.await_console(run, "goes back into the queue, as attempt 2: a node was lost")
    assert login.status(run)["state"] in {"queued", "running", "finished"}
    assert login.end(run) == 0
    assert [login.log(run, 0, attempt) for attempt in range(3)] == [
        f"attempt {attempt}\n" for attempt in range(3)
    ]
    login.site.nothing_left()


def test_a_run_gives_way_and_goes_on(login: Login) -> None:
    """Slurm's TERM ahead of a preemption is no wish to end the run."""
    run = login.submit("--nodes", "2", "--cpu", "8", "--requeue", "goes_on.py")
    login.await_console(run, "| attempt 0", 16)
    urgent = login.submit("--nodes", "2", "--cpu", "8", "--partition", "urgent", "say.py")
    text = login.await_console(run, f"run {run} goes back into the queue, as attempt 1: ")
    assert "another job takes the nodes" in text
    assert login.end(urgent) == 0
    assert login.end(run) == 0
    assert login.console(run).count(f"| resumed {run}") == 16


def test_a_killed_launcher_is_a_lost_run(login: Login) -> None:
    run = login.submit(*ON_TWO, "--grace", "2", "wait.py")
    login.await_console(run, "| up", 4)
    os.kill(login.record(run)["launcher_pid"], signal.SIGKILL)
    assert login.end(run) == 125
    assert login.status(run)["state"] == "lost"
    login.site.nothing_left()


def test_a_run_that_cannot_begin_says_why(login: Login) -> None:
    folder = login.site.folder
    run = login.submit("--nodes", "1", "--cpu", "1", "--sbatch", "--hold", "say.py")
    (folder / "say.py").unlink()
    login.cluster.command("scontrol", "release", login.job(run))
    assert login.end(run) == 2
    _code, out, _ = login.type("diagnose", run)
    assert "say.py" in out
    run = login.submit("--nodes", "1", "--cpu", "1", "--sbatch", "--hold", "wait.py")
    (login.runs / run / "submission.json").unlink()
    login.cluster.command("scontrol", "release", login.job(run))
    assert login.end(run) == 125
    told = " ".join(login.type("diagnose", run)[1].split())
    assert "ended before zlaunch could begin in it: FAILED" in told


def test_a_job_that_somebody_requeues_goes_on(login: Login) -> None:
    run = login.submit(*ON_TWO, "goes_on.py")
    login.await_console(run, "| attempt 0", 4)
    follower = login.start("logs", "tail", run, "--rank", "0")
    login.cluster.command("scontrol", "requeue", login.job(run))
    login.await_console(run, "Slurm has put the job back into the queue")
    assert login.end(run) == 0
    assert login.console(run).count(f"| resumed {run}") == 4
    out, _ = follower.communicate(timeout=LONG)
    assert [line.partition("| ")[2] for line in out.splitlines()] == [
        "attempt 0", "attempt 1", f"resumed {run}",
    ]  # fmt: skip


def test_an_array_is_a_run_for_each_task(login: Login) -> None:
    words = ("--nodes", "1", "--cpu", "1", "--array", "0-2", "--name", "sweep")
    runs = login.submit(*words, "say.py").split()
    assert [run.rpartition("_")[2] for run in runs] == ["0", "1", "2"]
    for task, run in enumerate(runs):
        assert login.end(run) == 0
        assert login.log(run, 0).startswith(f"said 0 {task} ")
    assert login.type("rm", "sweep")[0] == 0
    assert login.left() == []


def test_one_of_an_array_is_stopped_and_then_all(login: Login) -> None:
    words = ("--nodes", "1", "--cpu", "1", "--array", "0-3%2", "--name", "sweep")
    runs = login.submit(*words, "wait.py").split()
    for run in runs[:2]:
        login.await_console(run, "| up")
    code, out, err = login.type("stop", runs[3])
    assert (code, "was stopped by SIGTERM" in out) == (0, True), err
    assert login.status(runs[1])["state"] == "running"
    assert login.status(runs[2])["state"] == "queued"
    code, out, err = login.type("stop", runs[0].rpartition("_")[0])
    assert (code, out.count("was stopped by SIGTERM")) == (0, 3), out + err
    assert {login.record(run)["state"] for run in runs} == {"stopped"}
    login.site.nothing_left()


def test_two_submitted_runs_do_not_disturb_each_other(login: Login) -> None:
    steady = login.submit(*ON_TWO, "wait.py")
    failing = login.submit(*ON_TWO, "--grace", "1", "fail.py")
    login.await_console(steady, "| up", 4)
    assert login.end(failing) == 7
    assert login.status(steady)["state"] == "running"
    assert login.type("stop", steady)[0] == 0
    assert login.console(steady).count("| saved") == 4
    login.site.nothing_left()


def test_a_path_that_shells_and_slurm_would_read_otherwise(login: Login, tmp_path: Path) -> None:
    home = tmp_path / 'it\'s a "home" #1 %x $HOME'
    run = login.submit("--nodes", "1", "--cpu", "1", "say.py", ZLAUNCH_HOME=str(home))
    code, _, err = login.type("wait", run, ZLAUNCH_HOME=str(home))
    assert code == 0, err
    assert "said 0" in (home / "runs" / run / "console.log").read_text()
