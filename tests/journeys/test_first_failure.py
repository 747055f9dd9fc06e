"""What is last on the screen: the rank that failed of its own, its words, and the cause."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from journeys import Journey

RACE = """
import os, pathlib, sys, time
rank, late = int(os.environ["RANK"]), float(sys.argv[1])
pathlib.Path(f"up-{rank}").touch()
while not pathlib.Path(f"up-{1 - rank}").exists():
    time.sleep(0.005)
if rank == 0:
    time.sleep(1.0)
    raise ConnectionResetError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer")
time.sleep(1.0 + late)
raise ValueError("the reason")
"""


@pytest.mark.parametrize("late", ["-0.04", "0.2"])
def test_who_lost_a_peer_is_not_the_reason_whoever_ended_first(journey: Journey, late: str) -> None:
    done = journey.zlaunch("run", "--cpu", "2", journey.script(RACE), late)
    assert done.code == 1
    *_, quote, last = done.err.splitlines()
    assert quote == "1 | ValueError: the reason"
    assert "failed (exit code 1)" in last
    assert re.search(r"rank 1 \(pid \d+\) failed first, at \d\d:\d\d:\d\d\.\d{3}: exit", done.err)
    # Of a rank that came a moment later it may be said that it was stopped.
    assert re.search(r"rank 0: (connection closed by peer|stopped by zlaunch)", done.err)
    assert journey.record()["outcome"]["first_failure"] == 1


def test_equal_tracebacks_are_told_once(journey: Journey) -> None:
    script = journey.script("""
import os, time
if os.environ["RANK"] == "2":
    time.sleep(600)
raise ValueError(f"a bad row of rank {os.environ['RANK']}, pid {os.getpid()}")
""")
    done = journey.zlaunch("run", "--cpu", "4", "--console-ranks", "2", script)
    assert done.code == 1
    assert done.err.count("ValueError: a bad row") == 1  # although its rank is not shown
    assert re.search(r"rank 2: stopped by zlaunch", done.err)
    assert re.search(r"ranks \d, \d: the same traceback", done.err)


def test_the_cause_and_the_way_out(journey: Journey) -> None:
    script = journey.script("import argparse\nargparse.ArgumentParser().parse_args()")
    done = journey.zlaunch("run", "--cpu", "2", script, "--epochs", "3")
    assert done.code == 2
    assert "cause: job.py refuses its arguments: unrecognized arguments: --epochs 3" in done.err
    assert "zlaunch:   - " in done.err


def test_an_error_file_tells_what_was_not_printed(journey: Journey) -> None:
    script = journey.script("""
import json, os, sys
if os.environ["RANK"] == "1":
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        details = {"py_callstack": "Traceback...", "timestamp": "1"}
        json.dump({"message": {"message": "ValueError: only here", "extraInfo": details}}, file)
    sys.exit(1)
import time; time.sleep(600)
""")
    done = journey.zlaunch("run", "--cpu", "2", script)
    assert done.code == 1
    assert "cause: ValueError: only here" in done.err
    assert "ValueError: only here" in journey.zlaunch("diagnose").out


MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def small_memory():
    """A control group with 400 MB, and the file that takes the processes for it."""
    if os.geteuid() or not (MEMORY / "memory.limit_in_bytes").exists():
        pytest.skip("a limit on memory needs root and control groups of version 1")
    group = MEMORY / f"zlaunch-test-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text("400M")
    yield group / "cgroup.procs"
    group.rmdir()


def test_a_rank_that_the_kernel_killed_for_memory(journey: Journey, small_memory: Path) -> None:
    """As in a container; the kernel's own count is what tells it from any other SIGKILL."""
    script = journey.script("""
import os, time
held = []
while os.environ["RANK"] == "1":
    held.append(bytearray(10 << 20))
time.sleep(600)
""")
    enter = f'echo $$ > {small_memory}; exec "$@"'
    line = (sys.executable, "-m", "zlaunch", "run", "--cpu", "2", script)
    done = journey.zlaunch("-c", enter, "sh", *line, command=("/bin/sh",))
    assert done.code == 137
    assert "cause: SIGKILL: the host's memory, or the limit of its cgroup, was full" in done.err
    journey.assert_gone()


def test_a_kill_by_somebody_is_no_want_of_memory(journey: Journey) -> None:
    script = journey.script("import os; os.kill(os.getpid(), 9)")
    done = journey.zlaunch("run", "--cpu", "1", script)
    assert done.code == 137
    assert "killed by signal 9 (SIGKILL); it printed nothing" in done.err
    assert "no kill for memory was counted" in done.err


# Rank 1 fails, and Python waits at its exit for a thread; rank 0 would wait for it in a collective.
STUCK = """
import os, threading, time
if os.environ["RANK"] == "1":
    threading.Thread(target=time.sleep, args=(600,)).start()
    raise ValueError("row 17 is empty")
time.sleep(600)
"""


def test_a_rank_that_failed_and_did_not_end_is_shown_when_the_run_is_stopped(
    journey: Journey,
) -> None:
    hang = ("--hang-timeout", str(1.5 / 60), "--on-hang", "stop")
    done = journey.zlaunch("run", "--cpu", "2", *hang, journey.script(STUCK))
    assert done.code == 124
    assert "rank 1 (pid " in done.err
    assert " had failed, and its process did not end; its last lines:" in done.err
    assert done.err.splitlines()[-2] == "1 | ValueError: row 17 is empty"
    live = journey.start("run", "--cpu", "2", journey.script(STUCK))
    live.until("ValueError: row 17 is empty")
    live.send(signal.SIGINT)
    done = live.end()
    assert done.code == 130
    assert done.err.splitlines()[-2] == "1 | ValueError: row 17 is empty"


def test_whoever_was_only_stopped_had_not_failed(journey: Journey) -> None:
    script = journey.script("import time\nprint('Traceback of none', flush=True)\ntime.sleep(600)")
    live = journey.start("run", "--cpu", "2", script)
    live.until("of none", count=2)
    live.send(signal.SIGINT)
    assert "had failed" not in live.end().err
