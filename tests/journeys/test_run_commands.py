"""What is done with a run from another shell: status, stop, signal, wait, rm, prune, ps."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from typing import Any

import pytest
from journeys import Journey, Live, children_of

# Prints what it gets; USR1 and USR2 end nothing. With "stubborn" it outlives TERM.
JOB = """
import signal, sys, time
def tell(signum, frame):
    print("got", signal.Signals(signum).name, flush=True)
for name in ("USR1", "USR2", *(["TERM"] if "stubborn" in sys.argv else [])):
    signal.signal(getattr(signal, "SIG" + name), tell)
print("up", flush=True)
while True:
    time.sleep(600)
"""


def running(journey: Journey, *options: str, args: tuple[str, ...] = (), world: int = 2) -> Live:
    script = journey.script(JOB)
    live = journey.start("run", "--cpu", str(world), "--name", "mine", *options, script, *args)
    live.until("| up", count=world)
    return live


def status(journey: Journey, *run: str) -> dict[str, Any]:
    done = journey.zlaunch("status", *run, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_status_of_a_run_while_it_runs_and_afterwards(journey: Journey) -> None:
    live = running(journey, "--max-restarts", "2")
    (agent,) = [pid for pid in children_of(live.pid) if children_of(pid)]
    told = status(journey, "mine")
    assert (told["state"], told["phase"], told["attempt"]) == ("running", "running", 0)
    assert told["most_restarts"] == 2
    assert told["launcher"]["pid"] == live.pid
    assert {rank["pid"] for rank in told["ranks"]} == set(children_of(agent))
    assert [(r["rank"], r["device"], r["state"]) for r in told["ranks"]] == [
        (0, "CPU", "running"),
        (1, "CPU", "running"),
    ]
    shown = journey.zlaunch("status").out
    assert f"run {told['id']} (mine) is running, for " in shown
    for rank in told["ranks"]:
        assert str(rank["pid"]) in shown
    os.kill(told["ranks"][1]["pid"], signal.SIGKILL)
    assert live.end().code == 137
    told = status(journey)
    assert (told["state"], told["phase"], told["exit_code"]) == ("failed", None, 137)
    assert told["first_failure"] == 1
    assert told["ranks"][1]["signal"] == 9
    assert told["cause"]["ranks"] == [1]
    shown = journey.zlaunch("status").out
    assert "(mine) failed (exit code 137) after " in shown
    assert f"more: zlaunch diagnose {told['id']}" in shown


def test_status_without_an_answer_of_the_launcher_tells_the_rest(journey: Journey) -> None:
    live = running(journey)
    live.send(signal.SIGKILL)
    live.end()
    told = status(journey)
    assert (told["state"], told["phase"], told["seconds"]) == ("lost", None, None)
    assert {rank["state"] for rank in told["ranks"]} == {"lost"}
    assert "was lost: its launcher is gone" in journey.zlaunch("status").out


def test_stop_waits_for_the_end(journey: Journey) -> None:
    live = running(journey)
    done = journey.zlaunch("stop", "mine")
    assert done.code == 0
    assert "was stopped by SIGTERM (exit code 143) after " in done.out
    assert "stopping ranks 0-1 of run " in done.err
    assert live.process.poll() == 143  # it was over when stop returned
    assert "zlaunch: zlaunch stop: stopping ranks 0-1" in live.end().err
    again = journey.zlaunch("stop", "mine")
    assert again.code == 0
    assert "is over already: it was stopped by SIGTERM (exit code 143), " in again.out


def test_only_now_ends_the_grace(journey: Journey) -> None:
    """A second stop is the same wish: a checkpoint that is being written is not cut off."""
    live = running(journey, "--grace", "600", args=("stubborn",))
    first = journey.start("stop", "mine")
    live.until("got SIGTERM", count=2)
    second = journey.start("stop", "mine")
    second.until("stopping ranks 0-1")
    assert status(journey)["phase"] == "stopping"
    done = journey.zlaunch("stop", "mine", "--now")
    assert done.code == 0
    assert "exit code 143" in done.out
    assert (first.end().code, second.end().code, live.end().code) == (0, 0, 143)


def test_stop_now_gives_no_grace(journey: Journey) -> None:
    live = running(journey, "--grace", "600", args=("stubborn",))
    assert journey.zlaunch("stop", "mine", "--now").code == 0
    done = live.end()
    assert done.code == 143
    assert "got SIGTERM" not in done.out


def test_interrupting_stop_leaves_the_run_stopping(journey: Journey) -> None:
    live = running(journey, "--grace", "600", args=("stubborn",))
    stop = journey.start("stop", "mine")
    live.until("got SIGTERM", count=2)
    stop.until("stopping ranks")
    stop.send(signal.SIGINT)
    done = stop.end()
    assert done.code == 130
    assert "is still being stopped" in done.err
    assert journey.zlaunch("stop", "mine", "--now").code == 0
    assert live.end().code == 143


def test_a_lost_run_is_not_there_to_be_stopped(journey: Journey) -> None:
    live = running(journey)
    live.send(signal.SIGKILL)
    live.end()
    done = journey.zlaunch("stop", "mine")
    assert done.code == 0
    assert "was lost: its launcher is gone" in done.out
    signalled = journey.zlaunch("signal", "mine", "USR1")
    assert signalled.code == 2
    assert "was lost" in signalled.err


def test_signals_that_the_run_passes_on(journey: Journey) -> None:
    live = running(journey, "--forward-signals", "USR2,RTMIN+3")
    done = journey.zlaunch("signal", "mine", "usr2")
    assert done.code == 0
    assert done.out.startswith("SIGUSR2 passed on to ranks 0-1 of run ")
    live.until("got SIGUSR2", count=2)
    for name in ("USR1", "TERM", "KILL", "NOPE", "0", ""):
        refused = journey.zlaunch("signal", "mine", name)
        assert refused.code == 2
        assert "it passes on SIGUSR2, SIGRTMIN+3" in refused.err
    assert journey.zlaunch("stop", "mine", "--now").code == 0
    assert live.end().out.count("got ") == 2


@pytest.mark.parametrize("code", [0, 3])
def test_wait_ends_with_the_run_s_exit_code(journey: Journey, code: int) -> None:
    script = journey.script(f"""
import pathlib, sys, time
print("up", flush=True)
while not pathlib.Path("go").exists(): time.sleep(0.01)
sys.exit({code})
""")
    live = journey.start("run", "--cpu", "1", script)
    live.until("| up")
    early = journey.zlaunch("wait", "--timeout", "0.1")
    assert early.code == 124
    assert "was still running after 0.1 s" in early.err
    wait = journey.start("wait")
    (journey.folder / "go").touch()
    assert (wait.end().code, live.end().code) == (code, code)
    assert journey.zlaunch("wait", "--timeout", "0").code == code  # long over


def test_wait_for_a_launcher_that_is_killed(journey: Journey) -> None:
    live = running(journey, world=1)
    wait = journey.start("wait", "mine")
    live.send(signal.SIGKILL)
    live.end()
    done = wait.end()
    assert done.code == 125
    assert "was lost" in done.out


def test_runs_are_removed_and_never_one_that_is_alive(journey: Journey) -> None:
    quick = journey.script("print('hi')", "quick.py")
    for name in ("a", "b"):
        journey.zlaunch("run", "-q", "--cpu", "1", "--name", name, quick)
    live = running(journey, world=1)
    refused = journey.zlaunch("rm", "a", "mine")
    assert refused.code == 2
    assert "is running\n  hint: zlaunch stop " in refused.err
    assert len(journey.runs) == 3  # not even the other one
    assert journey.zlaunch("rm", "a", "a").code == 0
    assert len(journey.runs) == 2
    assert journey.zlaunch("stop", "mine", "--now").code == 0
    live.end()
    assert journey.zlaunch("rm", "mine").code == 0
    assert not (journey.home / "latest").is_symlink()
    (left,) = json.loads(journey.zlaunch("ps", "--json").out)
    assert left["name"] == "b"


def test_prune_takes_what_ended_long_ago(journey: Journey) -> None:
    quick = journey.script("print('hi')", "quick.py")
    for name in ("old", "new", "lost"):
        journey.zlaunch("run", "-q", "--cpu", "1", "--name", name, quick)
    old, _, lost = journey.runs
    record = json.loads((old / "run.json").read_text())
    long_ago = time.time() - 31 * 86400
    (old / "run.json").write_text(json.dumps({**record, "ended": long_ago, "started": long_ago}))
    record = json.loads((lost / "run.json").read_text())
    (lost / "run.json").write_text(json.dumps({**record, "state": "running", "ended": None}))
    dry = journey.zlaunch("prune", "--older", "30d", "--dry-run")
    assert dry.out.split() == [old.name]
    assert f"1 run would be removed from {journey.home}" in dry.err
    assert len(journey.runs) == 3
    assert journey.zlaunch("prune", "--older", "30d").out == dry.out
    for folder in (lost, lost / "logs"):
        for path in (*folder.glob("*"), folder):
            os.utime(path, (long_ago, long_ago))
    assert journey.zlaunch("prune", "--older", "30d").out.split() == [lost.name]
    said = [journey.home / "joined" / name for name in ("old", "new", "in-use")]
    said[0].parent.mkdir()
    for path in said:
        path.touch()
    os.utime(said[0], (long_ago, long_ago))
    os.utime(said[2], (long_ago, long_ago))
    with said[2].open() as in_use:
        fcntl.flock(in_use, fcntl.LOCK_EX)
        assert journey.zlaunch("prune", "--older", "30d").code == 0
        assert [path.exists() for path in said] == [False, True, True]
    for age in ("0d", "0.0h", "30", "-1d", "d", "30y", ""):  # 0 would be all of them
        refused = journey.zlaunch("prune", "--older", age)
        assert refused.code == 2
        assert f"--older {age}" in refused.err
    assert len(journey.runs) == 1


def test_a_name_that_is_not_there_is_answered_with_one_that_is(journey: Journey) -> None:
    journey.zlaunch("run", "-q", "--cpu", "1", "--name", "gpt-small", journey.script(""))
    for command in (["status"], ["stop"], ["wait"], ["attach"], ["rm"]):
        refused = journey.zlaunch(*command, "gpt-smal")
        assert refused.code == 2
        assert "did you mean gpt-small?" in refused.err


def test_thousands_of_past_runs_hide_none_that_is_alive(journey: Journey) -> None:
    """Nor is each of them read: their records here could not be."""
    journey.zlaunch("run", "-q", "--cpu", "1", "--name", "old", journey.script("", "quick.py"))
    live = running(journey, world=1)
    text = (journey.runs[0] / "run.json").read_text()
    for number in range(2000):
        run = journey.home / "runs" / f"99990101-000000-{number:08x}"
        run.mkdir()
        (run / "lock").touch()
        (run / "run.json").write_text(text if number >= 1980 else "{ half")
    done = journey.zlaunch("ps")
    assert done.err == ""
    lines = done.out.splitlines()
    assert len(lines) == 1 + 20 + 1
    assert "mine  running" in lines[-1]
    assert journey.zlaunch("stop", "mine", "--now").code == 0
    live.end()
