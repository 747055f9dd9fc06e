"""Descendants that are never there when their turn comes: they start each other anew."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from journeys import Journey, children_of, eventually

from zlaunch.system.scope import Scope, own_group

RESPAWNS = """
import os, subprocess, sys, time
loop = '''
import os, time
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.0005)
'''
null = subprocess.DEVNULL
for _ in range(2):
    argv = [sys.executable, "-I", "-S", "-c", loop]
    subprocess.Popen(argv, start_new_session=True, stdout=null, stderr=null)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def can_be_held() -> None:
    scope = Scope.make(f"test-{os.getpid()}")
    if scope is None:
        pytest.skip("without a control group of its own a run cannot hold these")
    scope.close()


@pytest.mark.parametrize("who", ["launcher", "launcher -9", "agent -9", "rank -9"])
def test_nothing_is_left(journey: Journey, who: str) -> None:
    live = journey.start("run", "--cpu", "2", "--grace", "1", journey.script(RESPAWNS))
    live.until("| up", count=2)
    [agent] = children_of(live.pid)
    pids = {"launcher": live.pid, "agent": agent, "rank": children_of(agent)[0]}
    os.kill(pids[who.partition(" ")[0]], signal.SIGKILL if who.endswith("-9") else signal.SIGTERM)
    assert live.end(25).code == {
        "launcher": 143, "launcher -9": -9, "agent -9": 125, "rank -9": 137
    }[who]  # fmt: skip
    journey.assert_gone(5)
    above = Path(own_group() or "/nowhere")
    assert eventually(lambda: not list(above.glob(f"zlaunch-{journey.runs[0].name}-*")), 5)
