"""Where ranks are: asked for from another shell, and told when no rank makes progress."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from journeys import Journey, children_of, eventually

from zlaunch.workers.stack_handler import ALL, MAIN

LIMIT = 3.0  # seconds
HANG = ("--hang-timeout", str(LIMIT / 60))
STOP = (*HANG, "--on-hang", "stop", "--grace", "2")

# Three ranks wait in gloo for the fourth.
BARRIER = """
import os, time
import torch.distributed as dist
from data import load_batch
dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
print("up", time.time(), flush=True)
if rank == 3:
    load_batch()
dist.barrier()
"""
ELSEWHERE = """
import time
def load_batch():
    while True:
        time.sleep(0.2)
"""
# A rank says that it is up, and does the second argument of its rank, else the last one.
PLACES = """
import os, sys, time
def first():
    {0}
def others():
    {1}
print("up", flush=True)
first() if os.environ["RANK"] == "0" else others()
"""
SLEEP = "time.sleep(600)"


def places(journey: Journey, first: str, others: str = SLEEP) -> str:
    return journey.script(PLACES.format(first, others))


def line_of(script: str, text: str, journey: Journey) -> int:
    lines = (journey.folder / script).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def roll(journey: Journey) -> dict[str, Any]:
    """What `zlaunch stacks --json` says of the running run."""
    done = journey.zlaunch("stacks", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def groups(told: dict[str, Any]) -> list[tuple[list[int], str]]:
    return [(group["ranks"], group["where"]) for group in told["groups"]]


def stopped(live: Any) -> None:
    live.send(signal.SIGINT)
    live.send(signal.SIGINT)
    time.sleep(0.4)
    live.send(signal.SIGINT)
    assert live.end().code == 130


def test_three_in_a_barrier_and_one_elsewhere_are_named(journey: Journey) -> None:
    """Within the limit and five seconds; that is what this is for."""
    journey.script(BARRIER)
    journey.script(ELSEWHERE, "data.py")
    live = journey.start("run", "--cpu", "4", *STOP, "job.py")
    live.until("| up ", count=4)
    up = max(map(float, re.findall(r"\| up ([\d.]+)", live.text)))
    live.until("no rank has made progress")
    took = time.time() - up
    done = live.end()
    assert done.code == 124
    odd = "rank 3 in load_batch at data.py:5; ranks 0-2 in barrier at job.py:11"
    assert odd in done.err, done.err
    assert LIMIT <= took < LIMIT + 5
    text = (journey.latest / "stacks-1.txt").read_text()
    assert odd in text
    assert text.count("in barrier\n") == 3
    assert "last output: ranks 0-3 " in done.err
    assert journey.record()["state"] == "failed"
    assert journey.record()["exit_code"] == 124
    assert not (journey.latest / "control.sock").exists()


def test_a_file_loop_counts_as_waiting(journey: Journey) -> None:
    """It moves between two lines, and uses next to nothing."""
    wait = "while not os.path.exists('never'): time.sleep(0.1)"
    script = places(journey, SLEEP, wait)
    done = journey.zlaunch("run", "--cpu", "4", *STOP, script)
    assert done.code == 124
    assert "rank 0 in first at job.py" in done.err


def test_a_rank_that_spins_on_the_spot_hangs_too(journey: Journey) -> None:
    script = places(journey, "n = 0\n    while True:\n        n += 1")
    done = journey.zlaunch("run", "--cpu", "2", *STOP, script)
    assert done.code == 124
    assert "rank 0 in first at job.py" in done.err


def test_by_default_the_run_goes_on_and_a_second_hang_is_told_again(journey: Journey) -> None:
    script = places(
        journey, "input_at = 6; time.sleep(input_at); print('on', flush=True); " + SLEEP
    )
    live = journey.start("run", "--cpu", "2", *HANG, script)
    live.until("no rank has made progress", count=1)
    live.until("the run goes on")
    live.until("| on")
    live.until("ranks make progress again")
    live.until("no rank has made progress", count=2)
    assert {path.name for path in journey.latest.glob("stacks*")} == {
        "stacks-1.txt",
        "stacks-2.txt",
    }
    stopped(live)


WORK = {
    "output": "while True: print('.', flush=True); time.sleep(1)",
    "processor": "while True: [work(n) for work in (sorted, list, other) for n in [range(9)] * 99]",
    "data": "data = b'x' * 1_000_000\n"
    "    while True: open('out', 'wb').write(data); time.sleep(0.2)",
    "children": "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: 1'])",
}


@pytest.mark.parametrize("kind", WORK)
def test_one_rank_that_works_is_progress(journey: Journey, kind: str) -> None:
    """The others wait for it; that is no hang, however long."""
    other = (
        "def other(n):\n    for one in n: deeper(one)\ndef deeper(one): return sum(range(one))\n"
    )
    script = journey.script(other + PLACES.format(WORK[kind], SLEEP))
    live = journey.start("run", "--cpu", "2", *HANG, script)
    live.until("| up", count=2)
    time.sleep(3 * LIMIT)
    assert "no rank has made progress" not in live.text
    stopped(live)


def test_a_run_that_ends_by_itself_is_not_disturbed(journey: Journey) -> None:
    script = journey.script("import time\nfor n in range(8): print(n, flush=True); time.sleep(0.5)")
    done = journey.zlaunch("run", "--cpu", "2", *STOP, script)
    assert done.code == 0
    assert "progress" not in done.err


def test_a_rank_that_ends_has_made_progress(journey: Journey) -> None:
    """Each idles for less than the limit before it ends, all of them for longer."""
    script = journey.script("import os, time; time.sleep(2 + 2 * int(os.environ['RANK']))")
    done = journey.zlaunch("run", "--cpu", "3", *STOP, script)
    assert done.code == 0
    assert "progress" not in done.err


def test_asked_for_at_any_time(journey: Journey) -> None:
    script = places(journey, "deep()\ndef deep():\n    time.sleep(600)")
    live = journey.start("run", "--cpu", "3", script)
    live.until("| up", count=3)
    done = journey.zlaunch("stacks")
    assert done.code == 0
    odd, *_ = done.out.splitlines()
    at = line_of(script, SLEEP, journey)
    assert odd == f"rank 0 in deep at job.py:{at}; ranks 1-2 in others at job.py:{at + 2}"
    assert done.out.count("most recent call first") == 2  # one of each place
    assert "all of it: " in done.out
    assert (journey.latest / "control.sock").stat().st_mode & 0o777 == 0o600
    told = roll(journey)
    assert told["file"].endswith("stacks-2.txt")
    assert [one["rank"] for one in told["ranks"]] == [0, 1, 2]
    stopped(live)
    last = journey.zlaunch("stacks")
    assert last.code == 0
    assert "it is over (stopped); what was seen last: " in last.err
    assert odd in last.out


def test_a_run_without_stacks_says_so(journey: Journey) -> None:
    assert journey.zlaunch("run", "--cpu", "1", journey.script("pass")).code == 0
    done = journey.zlaunch("stacks")
    assert done.code == 2
    assert "it is over (finished), and its stacks were never taken" in done.err


def test_a_launcher_that_is_gone(journey: Journey) -> None:
    live = journey.start("run", "--cpu", "1", places(journey, SLEEP))
    live.until("| up")
    live.send(signal.SIGKILL)
    live.end()
    done = journey.zlaunch("stacks")
    assert done.code == 2
    assert "its launcher is gone (lost)" in done.err


def test_a_run_directory_with_a_long_path(journey: Journey) -> None:
    """A socket's address holds 107 bytes."""
    journey.home = journey.folder / ("x" * 60) / ("y" * 60)
    journey.env["ZLAUNCH_HOME"] = str(journey.home)
    live = journey.start("run", "--cpu", "1", places(journey, SLEEP))
    live.until("| up")
    assert groups(roll(journey))[0][0] == [0]
    stopped(live)


@pytest.mark.parametrize(
    "said",
    [b"nonsense\n", b"[]\n", b'{"do": 3}\n', b'{"do": "dance"}\n', b"[" * 9999 + b"\n", b""],
)
def test_nonsense_at_the_socket_harms_nobody(journey: Journey, said: bytes) -> None:
    live = journey.start("run", "--cpu", "1", places(journey, SLEEP))
    live.until("| up")
    folder = os.open(journey.latest, os.O_RDONLY)  # the path may be too long for an address
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"/proc/self/fd/{folder}/control.sock")
        connection.settimeout(10)
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(4096)
    os.close(folder)
    assert (b'"ok":false' in answer) == bool(said)
    assert groups(roll(journey))[0][0] == [0]
    stopped(live)


# What ranks may be


def test_native_code_that_holds_the_gil(journey: Journey) -> None:
    """PyDLL keeps the lock; the signal is answered all the same."""
    script = places(journey, "import ctypes\n    while True: ctypes.PyDLL(None).sleep(600)")
    live = journey.start("run", "--cpu", "2", script)
    live.until("| up", count=2)
    time.sleep(0.3)
    assert groups(roll(journey))[0] == ([0], "in first at job.py:5")
    live.send(signal.SIGKILL)  # TERM would wait for the lock
    live.end()


def test_more_threads_than_are_listed(journey: Journey) -> None:
    """faulthandler lists a hundred, the newest; the main thread is asked for by itself."""
    threads = "import threading; [threading.Thread(target=time.sleep, args=(600,), daemon=True)"
    script = places(
        journey, f"{threads}.start() for _ in range(150)]; print('many', flush=True); {SLEEP}"
    )
    live = journey.start("run", "--cpu", "1", script)
    live.until("| many")
    time.sleep(0.3)
    assert groups(roll(journey)) == [([0], "in first at job.py:4")]
    stopped(live)


def test_a_script_with_its_own_handler_for_the_signal(journey: Journey) -> None:
    """It gets it, and nothing is made up."""
    mine = "import signal; signal.signal(52, lambda *_: print('mine', flush=True))"
    script = places(journey, f"{mine}; print('set', flush=True)\n    while True: time.sleep(1)")
    live = journey.start("run", "--cpu", "2", script, env={"PATH": os.environ["PATH"]})
    live.until("| set")
    told = groups(roll(journey))
    assert told[0][0] == [0]
    assert told[1] == ([1], f"in others at job.py:{line_of(script, SLEEP, journey)}")
    stopped(live)


def test_a_stopped_rank(journey: Journey) -> None:
    live = journey.start("run", "--cpu", "2", places(journey, SLEEP))
    live.until("| up", count=2)
    (agent,) = children_of(live.process.pid)
    first = min(children_of(agent))
    os.kill(first, signal.SIGSTOP)
    told = groups(roll(journey))
    assert told[0] == ([0], "(stopped (SIGSTOP))")
    os.kill(first, signal.SIGCONT)
    assert groups(roll(journey))[0][1].startswith("in first")
    stopped(live)


def test_ranks_that_are_no_python(journey: Journey) -> None:
    program = journey.program("#!/bin/sh\necho up\nsleep 600\n", "job.sh")
    live = journey.start("run", "--cpu", "2", "--no-python", str(program))
    live.until("| up", count=2)
    (told,) = groups(roll(journey))
    assert told[0] == [0, 1]
    assert "no Python with the handler in it runs there" in told[1]
    stopped(live)


def test_python_below_a_shell_script(journey: Journey) -> None:
    journey.script(f"import time\nprint('up', flush=True)\n{SLEEP}\n")
    program = journey.program(f"#!/bin/sh\n{sys.executable} job.py\n", "job.sh")
    live = journey.start("run", "--cpu", "2", "--no-python", str(program))
    live.until("| up", count=2)
    assert groups(roll(journey)) == [([0, 1], "at job.py:3")]
    stopped(live)


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_an_interpreter_that_keeps_to_itself(journey: Journey, option: str) -> None:
    """It has no handler, and is not killed by the signal that it knows nothing of."""
    journey.script("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    line = ("--no-python", sys.executable, option, "job.py")
    live = journey.start("run", "--cpu", "1", *line, env={"PATH": "/usr/bin:/bin"})
    live.until("| up")
    roll(journey)
    assert journey.zlaunch("ps").out.count("running") == 1
    stopped(live)


def test_without_stacks(journey: Journey) -> None:
    live = journey.start("run", "--cpu", "1", "--no-stacks", places(journey, SLEEP))
    live.until("| up")
    told = roll(journey)["groups"][0]["where"]
    assert told.startswith(("(no Python", "in first"))  # the latter by py-spy
    stopped(live)


def test_a_rank_that_has_ended_is_named(journey: Journey) -> None:
    live = journey.start("run", "--cpu", "3", *HANG, places(journey, "return"))
    live.until("no rank has made progress")
    assert "rank 0 (has ended: exit code 0); ranks 1-2 in others at job.py" in live.text
    stopped(live)


# What the script sees


SEEN = """
import json, os, sys
print(json.dumps([sys.path, os.environ.get("PYTHONPATH"), sorted(sys.modules),
    sorted(sys.path_importer_cache)]))
"""


@pytest.mark.parametrize("path", [None, "", "/one:/two", "/one:"])
def test_the_script_sees_nothing_of_the_handler(journey: Journey, path: str | None) -> None:
    script = journey.script(SEEN)
    env = {} if path is None else {"PYTHONPATH": path}
    assert journey.zlaunch("run", "--cpu", "1", script, env=env).code == 0
    seen = json.loads(journey.log())
    assert journey.zlaunch("run", "--cpu", "1", "--no-stacks", script, env=env).code == 0
    without = json.loads(journey.log())
    # faulthandler is loaded, which is built in, and looks like nothing.
    seen[2] = [name for name in seen[2] if name != "faulthandler"]
    assert seen == without


@pytest.mark.parametrize("broken", ["", "1/0", "import nothing_of_that_name"])
def test_the_users_own_sitecustomize_runs_as_before(journey: Journey, broken: str) -> None:
    site = journey.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"import sys; sys.mine = __file__\n{broken}\n")
    text = "import sys\nprint(sys.mine, getattr(sys.modules.get('sitecustomize'), '__file__', 0))"
    script = journey.script(text)
    logs = []
    for option in ("--stacks", "--no-stacks"):
        done = journey.zlaunch("run", "--cpu", "1", option, script, env={"PYTHONPATH": str(site)})
        assert done.code == 0
        logs.append(journey.log())
    assert logs[0] == logs[1]
    assert str(site).encode() in logs[0]


def test_children_of_the_script_have_no_handler(journey: Journey) -> None:
    child = "import signal; print(signal.getsignal(52), signal.getsignal(51))"
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    assert journey.zlaunch("run", "--cpu", "1", journey.script(text)).code == 0
    assert journey.log() == b"0 0\n"


def test_nothing_is_left_in_the_temporary_directory(journey: Journey) -> None:
    folder = journey.folder / "tmp"
    folder.mkdir()
    env = {"TMPDIR": str(folder)}
    live = journey.start("run", "--cpu", "2", places(journey, SLEEP), env=env)
    live.until("| up", count=2)
    (private,) = folder.iterdir()
    assert private.stat().st_mode & 0o777 == 0o700
    roll(journey)
    stopped(live)
    assert eventually(lambda: not list(folder.iterdir()))


def test_py_spy_where_there_is_no_handler(journey: Journey) -> None:
    beside = Path(sys.executable).parent / "py-spy"
    if not beside.exists():
        pytest.skip("py-spy is not installed beside this Python")
    script = places(journey, SLEEP)
    live = journey.start("run", "--cpu", "1", "--no-stacks", script)
    live.until("| up")
    pid = children_of(children_of(live.process.pid)[0])[0]
    may = subprocess.run([beside, "dump", "--pid", str(pid)], capture_output=True, check=False)
    where = roll(journey)["groups"][0]["where"]
    if may.returncode == 0:
        assert where == f"in first at job.py:{line_of(script, SLEEP, journey)}"
    else:
        assert "py-spy: " in where
    stopped(live)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--hang-timeout", "0"), "--hang-timeout 0: minutes are needed"),
        (("--hang-timeout", "nan"), "--hang-timeout nan"),
        (("--on-hang", "stop"), "--on-hang stop needs --hang-timeout"),
        (("--hang-timeout", "5", "--on-hang", "die"), "--on-hang"),
    ],
)
def test_wrong_input(journey: Journey, options: tuple[str, ...], words: str) -> None:
    done = journey.zlaunch("run", "--cpu", "1", *options, journey.script("pass"))
    assert done.code == 2
    assert words in done.err


# `on_exit` has libc call `raise` with the exit code, when the interpreter is gone already.
LATE = """
import ctypes, sys
ctypes.CDLL(None).on_exit(getattr(ctypes.CDLL(None), "raise"), None)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("start", ["cold", "warm"])
@pytest.mark.parametrize("signum", [ALL, MAIN])
def test_who_is_asked_while_it_ends_is_not_killed_by_that(
    journey: Journey, start: str, signum: int
) -> None:
    options = ("--start", start, "--preload", "json")
    done = journey.zlaunch("run", "--cpu", "2", *options, journey.script(LATE), str(signum))
    assert done.code == signum
    assert f"exit code {signum}" in done.err
