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
            how = f"run {journey.latest.name} was stopped by SIGTERM (exit code 143)"
            assert one.err == f"zlaunch: {how}\n"
            assert of(rank, one.out) == wanted
    live.process.kill()
    live.process.wait()
    assert journey.zlaunch("wait", "mine").code == 143  # as it was stopped: kept
    assert journey.record()["exit_code"] == 143
    assert eventually(lambda: not journey.alive())
    journey.assert_gone()


# Prints lines of 72 bytes, and waits in between for whoever looks on.
FLOODS = """
import os, pathlib, sys, time
for begin in range(0, 60_000, 5_000):
    for number in range(begin, begin + 5_000):
        sys.stdout.write(f"line {number:06d} ".ljust(71, "x") + "\\n")
    sys.stdout.flush()
    while not os.path.exists(f"go-{begin}"):
        time.sleep(0.01)
"""


def test_the_console_has_the_size_of_the_logs(journey: Journey) -> None:
    """Without a terminal all lines of all ranks are in it: the largest file of all."""
    script = journey.script(FLOODS)
    begun = journey.zlaunch("run", "-d", "--cpu", "1", "--log-max", "1M", "--name", "a", script)
    assert begun.code == 0, begun.err
    attached = journey.start("attach", "a")
    attached.until("attached to run")
    for begin in range(0, 55_000, 5_000):
        Path(journey.folder, f"go-{begin}").touch()
        attached.until(f"| line {begin + 9_999:06d} ")
    Path(journey.folder, "go-55000").touch()
    seen = attached.end()
    assert "bytes of its console are gone" not in seen.err
    run = journey.latest
    files = [*sorted((run / "console.log.old").iterdir()), run / "console.log"]
    kept = b"".join(file.read_bytes() for file in files)
    assert 1 << 19 <= len(kept) <= 1 << 20
    assert kept.count(b"finished: 1 rank") == 1
    lines = of(0, seen.out)
    assert lines == [f"line {n:06d} ".ljust(71, "x") for n in range(int(lines[0][5:11]), 60_000)]
    assert int(lines[0][5:11]) <= 5_000
    assert "finished: 1 rank" in seen.text
    late = journey.zlaunch("attach", "--from-start", "a")
    assert late.code == 0
    assert late.out.encode() == kept
    assert "bytes of its console are gone (--log-max)" in late.err
    assert journey.zlaunch("logs", "export", "a", "a.tar.gz").code == 0
