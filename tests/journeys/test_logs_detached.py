"""A run whose terminal is closed, followed from another shell and stopped: every line counted."""

from __future__ import annotations

import os
from pathlib import Path

from journeys import Journey, eventually
from test_detach import SHELL
from test_logs_ps import of

# Prints all the time, as fast as it is let; the count of what it printed is in a file at the end.
PRINTS = """
import os, pathlib, signal, sys, time
rank, number, stopped = os.environ["RANK"], 0, []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
print("up", flush=True)
while not stopped:
    for number in range(number + 1, number + 51):
        print("line", number)
    sys.stdout.flush()
    time.sleep(0.01)
print("the last of", number, flush=True)
pathlib.Path(f"count-{rank}").write_text(str(number))
sys.exit(0)
"""


def test_nothing_is_lost_between_start_attach_and_stop(journey: Journey) -> None:
    script, shell = journey.script(PRINTS), journey.script(SHELL, "shell.py")
    live, ours = journey.on_terminal(
        "run", "--cpu", "2", "--detach", "--name", "mine", script, shell=shell
    )
    live.until("ended with 0")
    live.close_streams()
    os.close(ours)  # hangs up: HUP to the session
    early = journey.start("logs", "tail", "-f", "-n", "all", "mine")
    early.until("| line 500\n", count=2)
    late = journey.start("logs", "tail", "-f", "-n", "all", "--merge", "mine")
    late.until("| line 1000\n", count=2)
    assert journey.zlaunch("ps").out.count("running") == 1
    assert journey.zlaunch("stop", "mine").code == 0
    seen = [one.end() for one in (early, late)]
    counts = [int(Path(journey.folder, f"count-{rank}").read_text()) for rank in (0, 1)]
    for rank, count in enumerate(counts):
        assert count > 1000
        wanted = ["up", *(f"line {n}" for n in range(1, count + 1)), f"the last of {count}"]
        for one in seen:
            assert one.code == 0
            assert one.err == ""
            assert of(rank, one.out) == wanted
    live.process.kill()
    live.process.wait()
    assert journey.zlaunch("wait", "mine").code == 143  # as it was stopped: kept
    assert journey.record()["exit_code"] == 143
    assert eventually(lambda: not journey.alive())
    journey.assert_gone()
