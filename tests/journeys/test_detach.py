"""`--detach` and `attach`: a run that needs no terminal, and is seen from any."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from journeys import Done, Journey, eventually
from test_logs_ps import of

COUNT = 3000
# Prints from its first moment on, and goes on when it is let go.
TALKS = f"""
import pathlib, sys, time
for i in range({COUNT}):
    print("line", i)
print("up", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
for i in range({COUNT}, 2 * {COUNT}):
    print("line", i)
sys.exit(int(sys.argv[1]))
"""
ALL = [f"line {i}" for i in range(2 * COUNT)]
ALL.insert(COUNT, "up")
# Owns a terminal, starts what it is given, and stays: it does not care for a hang-up.
SHELL = """
import signal, subprocess, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print("ended with", subprocess.run(sys.argv[1:]).returncode, flush=True)
time.sleep(600)
"""


def detached(journey: Journey, *options: str, world: int = 2, code: int = 0) -> str:
    """Start a run without a terminal; return its id."""
    script = journey.script(TALKS)
    done = journey.zlaunch("run", "--cpu", str(world), "--detach", *options, script, str(code))
    assert done.code == 0, done.err
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}\n", done.out)
    return done.out.strip()


def go(journey: Journey) -> None:
    (journey.folder / "go").touch()


def console(journey: Journey) -> Path:
    return journey.latest / "console.log"


def rank_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("zlaunch: ")]


def test_it_returns_once_the_workers_run_and_tells_what_to_do_next(journey: Journey) -> None:
    script = journey.script(TALKS)
    done = journey.zlaunch("run", "--cpu", "2", "-d", "--name", "mine", script, "3")
    run_id = done.out.strip()
    first, second = done.err.splitlines()
    assert first.startswith(f"zlaunch: run {run_id}: 2 ranks on the CPU")
    assert f"`zlaunch attach {run_id}` shows it, `zlaunch stop {run_id}` ends it" in second
    status = journey.zlaunch("status", "mine").out
    assert f"run {run_id} (mine) is running" in status
    assert str(console(journey)) in status
    assert console(journey).stat().st_mode & 0o777 == 0o600
    go(journey)
    assert journey.zlaunch("wait", run_id).code == 3
    assert console(journey).read_text().count("failed (exit code 3)") == 1
    assert not list((journey.home / "runs").glob(".*"))


def test_the_terminal_may_be_closed(journey: Journey) -> None:
    """Then the run is followed, attached to and stopped from other shells; nothing stays."""
    script, shell = journey.script(TALKS), journey.script(SHELL, "shell.py")
    live, ours = journey.on_terminal(
        "run", "--cpu", "2", "--detach", "--name", "mine", script, "0", shell=shell
    )
    live.until("ended with 0")
    live.close_streams()
    os.close(ours)  # hangs up
    assert eventually(lambda: "mine  running" in journey.zlaunch("ps").out)
    tail = journey.start("logs", "tail", "mine", "-n", "100000")
    attached = journey.start("attach", "mine", "--from-start")
    for one in (tail, attached):
        one.until("| up", count=2)
    go(journey)
    for one in (tail, attached):
        done = one.end()
        assert done.code == 0
        for rank in (0, 1):
            assert of(rank, done.out) == ALL
    live.process.kill()


def test_stop_leaves_nothing_and_the_exit_code_is_kept(journey: Journey) -> None:
    run_id = detached(journey)
    attached = journey.start("attach")
    attached.until("Ctrl-C")
    assert journey.zlaunch("stop", run_id).code == 0
    journey.assert_gone()
    done = attached.end()
    assert done.code == 143
    assert "was stopped by SIGTERM (exit code 143)" in done.out
    assert journey.zlaunch("wait", run_id).code == 143
    assert journey.record()["state"] == "stopped"


def test_a_launcher_that_is_killed_is_lost_at_once_and_leaves_nothing(journey: Journey) -> None:
    run_id = detached(journey)
    attached = journey.start("attach", "--from-start")
    attached.until("| up", count=2)
    os.kill(journey.record()["launcher_pid"], signal.SIGKILL)
    done = attached.end()
    assert done.code == 125
    assert f"run {run_id} was lost" in done.err
    assert "  lost  " in journey.zlaunch("ps").out
    journey.assert_gone()
    # what its agents did
    assert "no process of it is left on this machine" in journey.zlaunch("status").out
    told = json.loads(journey.zlaunch("status", "--json").out)
    assert told["left"] == []
    assert told["last_sign"]


def test_nothing_is_lost_between_two_that_attach(journey: Journey) -> None:
    """One sees all that was there, one all that comes; together they see each line once."""
    detached(journey)
    assert eventually(lambda: console(journey).read_text().count("| up") == 2)
    early = journey.start("attach")
    early.until("Ctrl-C")
    before = rank_lines(console(journey).read_text())
    go(journey)
    after = rank_lines(early.end().out)
    for rank in (0, 1):
        assert of(rank, "\n".join(before + after)) == ALL
    late = journey.zlaunch("attach", "--from-start")  # of a run that is over
    assert late.code == 0
    assert rank_lines(late.out) == before + after
    assert " finished: 2 ranks" in late.out


def test_interrupting_attach_leaves_the_run(journey: Journey) -> None:
    run_id = detached(journey, code=4)
    for option in ((), ("--from-start",)):
        attached = journey.start("attach", *option)
        attached.until("Ctrl-C")
        attached.send(signal.SIGINT)
        done = attached.end()
        assert done.code == 130
        assert f"left run {run_id}, which goes on" in done.err
    go(journey)
    assert journey.zlaunch("wait").code == 4
    over = journey.zlaunch("attach")
    assert over.code == 4
    assert "is over already: it failed (exit code 4)" in over.err
    assert over.out == ""


def test_attaching_to_a_run_at_another_terminal(journey: Journey) -> None:
    live = journey.start("run", "--cpu", "2", journey.script(TALKS), "5")
    live.until("| up", count=2)
    everything = journey.start("attach", "--from-start")
    everything.until("| up", count=2)
    rest = journey.start("attach")
    rest.until("Ctrl-C")
    go(journey)
    seen, later = everything.end(), rest.end()
    assert (seen.code, later.code, live.end().code) == (5, 5, 5)
    for rank in (0, 1):
        assert of(rank, seen.out) == ALL
        assert of(rank, later.out) == ALL[COUNT + 1 :]


# What does not come to run


def plain(done: Done) -> str:
    """What was said, without ids, ports, times and paths of the run."""
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{8}", "ID", done.err)
    return re.sub(r"127\.0\.0\.1:\d+|\d+\.\d s", "N", text)


@pytest.mark.parametrize(
    "line",
    [
        "--cpu 2 nosuch.py",
        "--cpu 2 broken.py",
        "--cpu 0 job.py",
        "--cpu 2 --recipe nosuch job.py",
        "--cpu 2 --console-ranks 7 job.py",
        "--cpu 2 --no-python ./headless",
        "--gpus 0 --cpu 1 job.py",
    ],
)
def test_what_cannot_run_is_told_as_ever(journey: Journey, line: str) -> None:
    journey.script("print('hi')")
    journey.script("x = = 1", "broken.py")
    journey.program("#!/nosuch/interpreter\n", "headless")
    there = journey.zlaunch("run", *line.split())
    away = journey.zlaunch("run", "--detach", *line.split())
    assert there.code != 0
    assert (away.code, plain(away), away.out) == (there.code, plain(there), "")
    journey.assert_gone()
    assert not list((journey.home / "runs").glob(".*"))


@pytest.mark.parametrize("option", [("--debug",), ("--stdin-rank", "0")])
def test_nobody_can_type_to_a_rank(journey: Journey, option: tuple[str, ...]) -> None:
    done = journey.zlaunch("run", "--cpu", "1", "--detach", *option, journey.script(""))
    assert done.code == 2
    assert f"--detach and {option[0]} contradict each other" in done.err


# While it starts: node 0 waits for another one


def node(journey: Journey, rank: int, port: int, *options: str, script: str) -> tuple[str, ...]:
    token = journey.folder / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    return (
        *("join", "--nnodes", "2", "--node-rank", str(rank), "--cpu", "1", *options),
        *("--rendezvous", f"127.0.0.1:{port}", "--token-file", "token", script, "0"),
    )


@pytest.fixture
def port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_start_can_be_stopped(journey: Journey, port: int, signum: int, code: int) -> None:
    live = journey.start(*node(journey, 0, port, "-d", script=journey.script(TALKS)))
    live.until("waiting for node 1")
    live.send(signum)
    done = live.end()
    assert (done.code, done.out) == (code, "")
    journey.assert_gone()
    (run,) = journey.runs
    assert json.loads((run / "run.json").read_text())["exit_code"] == code
    assert not (journey.home / "latest").exists()


def test_a_hang_up_ends_no_start(journey: Journey, port: int) -> None:
    """Nor is it needed that anybody hears of it."""
    script = journey.script(TALKS)
    live = journey.start(*node(journey, 0, port, "-d", "--name", "mine", script=script))
    live.until("waiting for node 1")
    live.send(signal.SIGHUP)
    assert live.end().code == -signal.SIGHUP
    other = journey.zlaunch(*node(journey, 1, port, "--detach", script=script))
    assert other.code == 0, other.err
    run_id = other.out.strip()
    assert f"`zlaunch stop {run_id}` on node 0 ends the run" in other.err
    (said,) = (journey.home / "joined").iterdir()
    assert said.name == f"{run_id}-node-1.log"
    assert said.stat().st_mode & 0o777 == 0o600
    go(journey)
    assert journey.zlaunch("wait", "mine").code == 0
    assert "waiting for node 1" in console(journey).read_text()
    assert console(journey).read_text().count("| line") == 4 * COUNT
    journey.assert_gone()
    assert f"run {run_id} finished" in said.read_text()


def test_its_output_may_be_read_by_a_shell(journey: Journey) -> None:
    """What has left holds no descriptor for which the shell would wait."""
    script = journey.script(TALKS)
    command = f"id=$(zlaunch run --cpu 1 -q -d {script} 0) && echo got $id"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=journey.folder,
        env=journey.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("got 2")
    assert done.stderr == ""
    go(journey)
    assert journey.zlaunch("wait").code == 0
