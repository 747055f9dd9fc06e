"""`--detach` on every way to an agent: it needs no terminal, and is ended from afar."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from ways import LONG, RANKS, Way

WORLD = sum(RANKS)
TALKS = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("got it", flush=True))
for i in range(1000):
    print("line", i)
print("up", flush=True)
time.sleep(600)
"""


def detached(way: Way) -> str:
    (way.folder / "job.py").write_text(TALKS)
    code, out, err = way.start("job.py", options=("--detach",)).end()
    assert code == 0, err
    assert "goes on without this terminal" in err
    return out.strip()


def zlaunch(way: Way, *args: str) -> subprocess.CompletedProcess[str]:
    """From another shell, which is on node 0's host."""
    line = [sys.executable, "-m", "zlaunch", *args]
    env = {**os.environ, "ZLAUNCH_HOME": str(way.home)}
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False, timeout=LONG)


def status(way: Way, run_id: str) -> dict[str, Any]:
    return json.loads(zlaunch(way, "status", run_id, "--json").stdout)


def test_it_goes_on_is_seen_and_is_stopped(way: Way) -> None:
    run_id = detached(way)
    told = status(way, run_id)
    assert (told["state"], [rank["state"] for rank in told["ranks"]]) == (
        "running",
        ["running"] * WORLD,
    )
    env = {**os.environ, "ZLAUNCH_HOME": str(way.home)}
    line = [sys.executable, "-m", "zlaunch", "attach", run_id, "--from-start"]
    with subprocess.Popen(line, env=env, stdout=subprocess.PIPE, text=True) as attached:
        assert attached.stdout is not None
        seen = ""
        while seen.count("| up") < WORLD:  # they hear signals from then on
            seen += attached.stdout.readline()
        assert zlaunch(way, "signal", run_id, "USR1").returncode == 0
        while seen.count("| got it") < WORLD:
            seen += attached.stdout.readline()
        stopped = zlaunch(way, "stop", run_id)
        assert stopped.returncode == 0, stopped.stderr
        assert "was stopped by SIGTERM (exit code 143)" in stopped.stdout
        rest, _ = attached.communicate(timeout=LONG)
    assert attached.returncode == 143
    assert f"{run_id} was stopped by SIGTERM" in rest
    for number in range(1000):
        assert seen.count(f"| line {number}\n") == WORLD
    way.nothing_left(5.0)


def test_a_launcher_that_is_killed_leaves_nothing(way: Way) -> None:
    run_id = detached(way)
    os.kill(status(way, run_id)["launcher"]["pid"], signal.SIGKILL)
    assert zlaunch(way, "wait", run_id).returncode == 125
    assert "  lost  " in zlaunch(way, "ps").stdout
    way.nothing_left(20.0)


def test_what_does_not_come_to_run_is_told(way: Way) -> None:
    code, out, err = way.start("nosuch.py", options=("--detach",)).end()
    assert (code, out) == (2, "")
    assert "nosuch.py" in err
    way.nothing_left(5.0)
