"""`zlaunch logs` and `zlaunch ps`: runs seen from another shell, live and afterwards."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from datetime import datetime

import pytest
from journeys import Journey, eventually

WAITS = """
import os, pathlib, sys, time
rank = os.environ["RANK"]
for i in range(30):
    print(f"early {i}", flush=True)
print("up", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
for i in range(2000):
    print(f"late {i}")
sys.stdout.write("the last of " + rank)
sys.exit(int(sys.argv[1]))
"""
LATE = [f"late {i}" for i in range(2000)]


def waiting(journey: Journey, *options: str, world: int = 2, code: int = 0):
    """Start a run whose ranks are all up and wait to be let go."""
    script = journey.script(WAITS)
    live = journey.start("run", "--cpu", str(world), *options, script, str(code))
    live.until("| up", count=world)
    return live


def go(journey: Journey) -> None:
    (journey.folder / "go").touch()


def of(rank: int, text: str) -> list[str]:
    """The lines of one rank in tagged output, without their tags."""
    tag = f"{rank} | "
    return [line[len(tag) :] for line in text.splitlines() if line.startswith(tag)]


def states(journey: Journey) -> list[str]:
    return [run["state"] for run in json.loads(journey.zlaunch("ps", "--json").stdout)]


def test_tail_follows_a_live_run_and_ends_with_it(journey: Journey) -> None:
    run = waiting(journey)
    tail = journey.start("logs", "tail")
    tail.until("| up", count=2)
    go(journey)
    seen = tail.end()
    assert (seen.code, run.end().code) == (0, 0)
    for rank in (0, 1):
        begin = [f"early {i}" for i in range(21, 30)] + ["up"]
        assert of(rank, seen.out) == [*begin, *LATE, f"the last of {rank}"]
    assert seen.err == ""


def test_tail_from_the_first_moment_misses_nothing(journey: Journey) -> None:
    """Started before the run has written a line, read while it writes all the time."""
    script = journey.script("""
import time
for i in range(3000):
    print(f"line {i}", flush=True)
    if i % 100 == 0: time.sleep(0.01)
""")
    run = journey.start("run", "--cpu", "2", script)
    assert eventually((journey.home / "latest").exists)
    tail = journey.start("logs", "tail", "-n", "100000")
    seen = tail.end()
    run.end()
    assert seen.code == 0
    for rank in (0, 1):
        assert of(rank, seen.out) == [f"line {i}" for i in range(3000)]


def test_tail_of_one_rank_and_of_some_lines(journey: Journey) -> None:
    run = waiting(journey, world=3)
    last = journey.zlaunch("logs", "tail", "--no-follow", "--rank", "-1", "-n", "3")
    assert last.out.splitlines() == ["2 | early 28", "2 | early 29", "2 | up"]
    some = journey.zlaunch("logs", "tail", "--no-follow", "--rank", "0,2", "-n", "1")
    assert some.out.splitlines() == ["0 | up", "2 | up"]
    none = journey.zlaunch("logs", "tail", "--no-follow", "-n", "0")
    assert (none.code, none.out) == (0, "")
    tail = journey.start("logs", "tail", "-n", "1", "--rank", "1", "--grep", "up|99$|last")
    tail.until("1 | up")
    go(journey)
    seen = tail.end()
    run.end()
    wanted = ["up", *(line for line in LATE if line.endswith("99")), "the last of 1"]
    assert seen.out.splitlines() == [f"1 | {line}" for line in wanted]


def test_tail_ends_when_the_launcher_is_killed(journey: Journey) -> None:
    run = waiting(journey)
    tail = journey.start("logs", "tail", "-f")
    tail.until("| up", count=2)
    run.send(signal.SIGKILL)
    run.end()
    assert tail.end(30).code == 0


def test_tail_can_be_interrupted_and_the_run_goes_on(journey: Journey) -> None:
    run = waiting(journey)
    tail = journey.start("logs", "tail")
    tail.until("| up", count=2)
    tail.send(signal.SIGINT)
    seen = tail.end(30)
    assert seen.code == 130
    assert "Traceback" not in seen.err
    go(journey)
    assert run.end().code == 0


def test_a_reader_that_has_enough(journey: Journey) -> None:
    journey.zlaunch("run", "-q", "--cpu", "1", journey.script("for i in range(99_999): print(i)"))
    for command in (["logs", "show"], ["logs", "tail", "-n", "90000"]):
        process = journey.popen(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline().startswith(b"0 | ")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 0


def test_tail_shows_progress_of_a_live_run(journey: Journey) -> None:
    """Training's most usual output is one line that is written over and over."""
    script = journey.script("""
import pathlib, sys, time
print("up", flush=True)
i = 0
while not pathlib.Path("go").exists():
    sys.stdout.write(f"\\r{i} it/s"); sys.stdout.flush()
    i += 1
    time.sleep(0.01)
""")
    run = journey.start("run", "--cpu", "1", script)
    run.until("| up")
    tail = journey.start("logs", "tail")
    try:
        tail.until("it/s", seconds=15)
    finally:
        go(journey)
        tail.end()
        run.end()


def test_show_and_path(journey: Journey) -> None:
    run = waiting(journey)
    go(journey)
    run.end()
    lines = [*(f"early {i}" for i in range(30)), "up", *LATE]
    shown = journey.zlaunch("logs", "show")
    assert shown.out.splitlines() == [
        f"{rank} | {line}" for rank in (0, 1) for line in [*lines, f"the last of {rank}"]
    ]
    one = journey.zlaunch("logs", "show", "--rank", "1", "--grep", "^early 1")
    assert of(1, one.out) == ["early 1", *(f"early {i}" for i in range(10, 20))]
    assert len(one.out.splitlines()) == 11
    logs = journey.latest / "logs"
    assert journey.zlaunch("logs", "path").out == f"{logs}\n"
    paths = journey.zlaunch("logs", "path", "--rank", "all").out.splitlines()
    assert paths == [str(logs / f"rank-{rank}.log") for rank in (0, 1)]
    assert of(0, journey.zlaunch("logs", "tail").out)[-1] == "the last of 0"  # ended: no wait


def test_which_run_is_meant(journey: Journey) -> None:
    script = journey.script("import sys; print('I am', sys.argv[1])")
    for number, name in enumerate(("first", "twice", "twice")):
        second = int(time.time())
        assert eventually(lambda before=second: int(time.time()) > before)  # ids count seconds
        done = journey.zlaunch("run", "-q", "--cpu", "1", "--name", name, script, str(number))
        assert done.code == 0
    listed = json.loads(journey.zlaunch("ps", "--json").stdout)
    ids = [run["id"] for run in listed]  # newest first
    by_number = {2: ids[0], 1: ids[1], 0: ids[2]}
    shown = journey.zlaunch("logs", "show")
    assert shown.out == "0 | I am 2\n"
    for reference, number in (
        ("first", 0),
        ("twice", 2),
        (by_number[1], 1),
        (by_number[0], 0),
        (by_number[0][:-1], 0),
    ):
        shown = journey.zlaunch("logs", "show", reference)
        assert shown.out == f"0 | I am {number}\n", reference
    unclear = journey.zlaunch("logs", "show", ids[0][:2])
    assert unclear.code == 2
    assert "3 runs" in unclear.err
    for command in ("show", "tail", "path"):
        unknown = journey.zlaunch("logs", command, "nosuch")
        assert unknown.code == 2
        assert "nosuch" in unknown.err
        assert "zlaunch ps" in unknown.err
        assert "Traceback" not in unknown.err


@pytest.mark.parametrize(
    ("options", "word"),
    [("--rank 7", "7"), ("--rank x", "x"), ("--grep (", "("), ("--no-such", "--no-such")],
)
def test_what_logs_cannot_do(journey: Journey, options: str, word: str) -> None:
    assert journey.zlaunch("run", "-q", "--cpu", "1", journey.script("")).code == 0
    done = journey.zlaunch("logs", "tail", *options.split())
    assert done.code == 2
    assert word in done.err
    assert "Traceback" not in done.err


def test_no_runs_yet(journey: Journey) -> None:
    for command in ("tail", "show", "path"):
        done = journey.zlaunch("logs", command)
        assert done.code == 2
        assert "zlaunch run" in done.err
    assert json.loads(journey.zlaunch("ps", "--json").stdout) == []
    assert journey.zlaunch("ps").code == 0
    assert not journey.home.exists()


def test_ps_tells_how_each_run_ended(journey: Journey) -> None:
    script = journey.script("import sys; sys.exit(int(sys.argv[1]))")
    journey.zlaunch("run", "--cpu", "1", "--name", "good", script, "0")
    journey.zlaunch("run", "--cpu", "3", "--name", "bad", script, "42")
    stopped = waiting(journey, "--name", "halted")
    stopped.send(signal.SIGTERM)
    stopped.end()
    lost = waiting(journey, "--name", "gone")
    lost.send(signal.SIGKILL)
    lost.end()
    running = waiting(journey, "--name", "busy")
    runs = json.loads(journey.zlaunch("ps", "--json").stdout)
    keys = {"id", "name", "state", "started", "world_size", "exit_code"}
    assert all(keys <= run.keys() for run in runs)
    told = {run["name"]: (run["state"], run["exit_code"], run["world_size"]) for run in runs}
    assert told == {
        "good": ("finished", 0, 1),
        "bad": ("failed", 42, 3),
        "halted": ("stopped", 143, 2),
        "gone": ("lost", None, 2),
        "busy": ("running", None, 2),
    }
    for run in runs:
        assert datetime.fromisoformat(run["started"].replace("Z", "+00:00")).tzinfo
    table = journey.zlaunch("ps")
    for run in runs:
        [row] = [line for line in table.out.splitlines() if run["id"] in line]
        assert run["name"] in row
        assert run["state"] in row
    go(journey)
    running.end()
    assert states(journey).count("running") == 0


def test_a_broken_record_hides_no_other_run(journey: Journey) -> None:
    script = journey.script("print('fine')")
    journey.zlaunch("run", "-q", "--cpu", "1", "--name", "old", script)
    journey.zlaunch("run", "-q", "--cpu", "1", script)
    (journey.latest / "run.json").write_text("{ half")
    listed = journey.zlaunch("ps", "--json")
    assert listed.code == 0
    assert [run["name"] for run in json.loads(listed.stdout)] == ["old"]
    assert "run.json" in listed.err


def test_a_broken_record_hides_no_name(journey: Journey) -> None:
    journey.zlaunch("run", "-q", "--cpu", "1", "--name", "old", journey.script("print('fine')"))
    newer = journey.home / "runs" / "99991231-000000-ffff"
    newer.mkdir()
    (newer / "run.json").write_text("{ half")
    assert journey.zlaunch("logs", "show", "old").out == "0 | fine\n"


def test_ps_keeps_control_characters_and_newlines_off_the_screen(journey: Journey) -> None:
    script = journey.script("")
    journey.zlaunch("run", "-q", "--cpu", "1", "--name", "plain", script, "a\nb", "\x1b[2J")
    table = journey.zlaunch("ps").out
    assert len(table.splitlines()) == 2
    assert "\x1b" not in table


def test_ids_sort_by_time(journey: Journey) -> None:
    script = journey.script("")
    for number in range(8):
        journey.zlaunch("run", "-q", "--cpu", "1", script, str(number))
    listed = json.loads(journey.zlaunch("ps", "--json").stdout)
    assert [run["command"][1] for run in listed] == [str(i) for i in reversed(range(8))]
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]+", run["id"]) for run in listed)
    started = [run["started"] for run in listed]
    assert started == sorted(started, reverse=True)
