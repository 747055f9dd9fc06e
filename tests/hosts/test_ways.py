"""Journeys that have to go alike on every way to an agent: local, paramiko, openssh, join."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from ways import RANKS, Way

WORLD = sum(RANKS)
ODD = "64(x2)\n\"'$HOME `x` \\ \udcff é"
SHOW = """
import json, os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "ODD")
print(json.dumps([os.environ.get(name) for name in names] + [sys.argv, os.getcwd()]))
"""
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
# Ignores TERM; has a child in a session of its own that does too.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", sleep], start_new_session=True)
print("up", flush=True)
time.sleep(600)
"""


def test_ranks_places_and_odd_values(way: Way) -> None:
    """Directory, script, arguments and values arrive byte for byte."""
    place = way.folder / 'it\'s "so" $(x) `y`\nä *'
    place.mkdir()
    script = "job $(x) 'ü'\n.py"
    (place / script).write_text(SHOW)
    args = ["a b", "", "$HOME", "`x` $(y)", "'", '"', "a\nb", "*", "ä€", "--x=1", "\\", "\udcff"]
    options = ("--env", f"ODD={ODD}") if way.name in ("paramiko", "openssh") else ()
    launch = way.start(script, *args, options=options, env={"ODD": ODD}, cwd=place)
    code, out, err = launch.end()
    assert code == 0, err
    told = sorted(json.loads(line.partition(" | ")[2]) for line in out.splitlines())
    sizes = RANKS if way.nodes == 2 else (WORLD,)
    expected = [
        [str(local), str(size), str(node)]
        for node, size in enumerate(sizes)
        for local in range(size)
    ]
    assert told == [
        [str(rank), local, str(WORLD), size, node, ODD, [script, *args], str(place)]
        for rank, (local, size, node) in enumerate(expected)
    ]


def test_ranks_are_forked_from_one_that_has_imported(way: Way) -> None:
    """On each node."""
    script = "import gc, os\nprint(os.environ['RANK'], gc.get_freeze_count() > 0)\n"
    (way.folder / "job.py").write_text(script)
    launch = way.start("job.py", options=("--start", "warm", "--preload", "json"), cwd=way.folder)
    code, out, err = launch.end()
    assert code == 0, err
    told = sorted(line.partition(" | ")[2] for line in out.splitlines())
    assert told == [f"{rank} True" for rank in range(WORLD)]


def test_output_is_whole(way: Way) -> None:
    """In the files byte for byte, on the console line by line."""
    code = """
import os, sys
rank = int(os.environ["RANK"])
for i in range(4000):
    os.write(1 + i % 2, b"%d %d \\xff\\r\\n" % (rank, i) if i % 100 else b"%d %d " % (rank, i))
print("the last line has no end", end="")
"""
    exit_code, out, err = way.run(code)
    assert exit_code == 0, err
    for rank in range(WORLD):
        whole = b"".join(
            b"%d %d \xff\r\n" % (rank, i) if i % 100 else b"%d %d " % (rank, i) for i in range(4000)
        )
        assert way.log(rank) == whole + b"the last line has no end"
    assert out.count("the last line has no end") == WORLD


def test_a_failure_crosses_nodes(way: Way) -> None:
    code = """
import os, sys, time
print("up", flush=True)
if os.environ["RANK"] == "4":
    time.sleep(0.5)
    sys.exit("the reason")
time.sleep(600)
"""
    exit_code, _, err = way.run(code, options=("--grace", "5"))
    assert exit_code == 1
    assert "rank 4" in err
    assert "the reason" in err
    assert "ranks 0-3: stopped by zlaunch" in err
    way.nothing_left(2.0)


@pytest.mark.parametrize("how", ["exit 7", "signal 9", "signal 11"])
def test_the_exit_code_is_the_first_failing_rank_s(way: Way, how: str) -> None:
    code = """
import os, sys, time
if os.environ["RANK"] == "3":
    what, number = sys.argv[1].split()
    sys.exit(int(number)) if what == "exit" else os.kill(os.getpid(), int(number))
time.sleep(600)
"""
    number = int(how.split()[1])
    assert way.run(code, how)[0] == (number if how.startswith("exit") else 128 + number)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_reaches_all(way: Way, signum: signal.Signals) -> None:
    (way.folder / "job.py").write_text(SLEEP)
    launch = way.start("job.py")
    launch.up()
    launch.process.send_signal(signum)
    code, _, err = launch.end()
    assert code == 128 + signum
    assert f"ranks 0-{WORLD - 1}: stopped by zlaunch" in err
    way.nothing_left(2.0)


def test_who_does_not_obey_is_killed(way: Way) -> None:
    (way.folder / "job.py").write_text(STUBBORN)
    launch = way.start("job.py", options=("--grace", "1"))
    launch.up()
    launch.process.send_signal(signal.SIGTERM)
    code, _, err = launch.end()
    assert code == 143
    assert "after the grace (KILL)" in err
    way.nothing_left(2.0)


def test_the_launcher_is_killed(way: Way) -> None:
    (way.folder / "job.py").write_text(STUBBORN)
    launch = way.start("job.py", options=("--grace", "1"))
    launch.up()
    launch.process.kill()
    launch.end()
    way.nothing_left(3.0)


def test_a_signal_is_passed_on(way: Way) -> None:
    code = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
print("up", flush=True)
time.sleep(600)
"""
    (way.folder / "job.py").write_text(code)
    launch = way.start("job.py")
    launch.up()
    launch.process.send_signal(signal.SIGUSR1)
    assert launch.end()[0] == 0


def test_the_config_is_there_for_every_rank_and_errors_have_a_place(way: Way) -> None:
    code = """
import json, os
config = json.load(open(os.environ["ZLAUNCH_DS_CONFIG"]))
folder = os.path.dirname(os.environ["TORCHELASTIC_ERROR_FILE"])
print(config["zero_optimization"]["stage"], config["train_batch_size"], os.path.isdir(folder))
"""
    exit_code, out, err = way.run(code, options=("--recipe", "zero3", "--micro-batch", "2"))
    assert exit_code == 0, err
    told = {line.partition(" | ")[2] for line in out.splitlines()}
    accumulated = int(told.copy().pop().split()[1]) // (2 * WORLD)
    assert told == {f"3 {2 * WORLD * accumulated} True"}


def test_nobody_reads_from_the_terminal(way: Way) -> None:
    code = "import os, sys\nprint(repr(sys.stdin.read()), os.isatty(0))\n"
    exit_code, out, _ = way.run(code)
    assert exit_code == 0
    assert {line.partition(" | ")[2] for line in out.splitlines()} == {"'' False"}


def test_what_cannot_be_started_is_told(way: Way) -> None:
    """Found before the start on this machine, or by the look at the hosts."""
    (way.folder / "job.py").write_text(SLEEP)
    launch = way.start("job.py", options=("--no-python",))
    code, out, err = launch.end()
    assert (code, out) == (2, "")
    assert "job.py is not executable" in err or "job.py is not on PATH" in err


ONCE_MORE = """
import json, os, sys, time
attempt, rank = int(os.environ["ZLAUNCH_RESTART_COUNT"]), os.environ["RANK"]
print("attempt", attempt, os.environ["MASTER_PORT"] != "0", flush=True)
if attempt == 0 and rank == "4":
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": "from the error file"}, file)
    sys.exit(5)
if attempt == 0:
    time.sleep(600)
"""


def test_all_nodes_are_started_again(way: Way) -> None:
    options = ("--max-restarts", "2", "--healthy-after", "0")
    code, out, err = way.run(ONCE_MORE, options=options)
    assert code == 0, err
    assert out.count("| attempt 1 True") == WORLD
    assert "attempt 0: rank 4 failed after" in err
    (events,) = way.home.glob("runs/*/events.jsonl")
    exits = [json.loads(line) for line in events.read_text().splitlines() if '"Exited"' in line]
    (failed,) = (one for one in exits if one["exit"]["code"] == 5)
    assert json.loads(failed["error"]) == {"message": "from the error file"}
    assert (failed["told"], set(failed["signs"])) == (False, {"oom_kills", "shm_size", "shm_free"})
    assert {one["told"] for one in exits if one["exit"]["signal"] == 15} == {True}
    way.nothing_left(2.0)


# Attempt 0 leaves behind what has a session of its own, obeys no TERM, and says by a lock that it
# lives; attempt 1 looks.
LEAVES = """
import fcntl, os, signal, sys, time
attempt, rank = int(os.environ["ZLAUNCH_RESTART_COUNT"]), os.environ["RANK"]
lock = os.open(f"{sys.argv[1]}/{rank}", os.O_RDWR | os.O_CREAT)
if attempt == 1:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("alone", flush=True)
    except OSError:
        print("not alone", flush=True)
    sys.exit()
ready, said = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        os.write(said, b"1")
        for fd in (0, 1, 2):
            os.close(fd)
        time.sleep(600)
    os._exit(0)
os.read(ready, 1)
if rank == "4":
    time.sleep(1.0)
    sys.exit(3)
time.sleep(600)
"""


def test_nothing_of_an_attempt_meets_the_next_one(way: Way) -> None:
    locks = way.folder / "locks"
    locks.mkdir()
    options = ("--max-restarts", "1", "--healthy-after", "0", "--grace", "1")
    code, out, err = way.run(LEAVES, str(locks), options=options)
    assert code == 0, err
    assert out.count("| alone") == WORLD, out
    way.nothing_left(2.0)


COUNTS = """
import os, signal, sys, time
heard = []
signal.signal(signal.SIGUSR2, lambda *_: heard.append(time.monotonic()))
print("up", os.getppid(), flush=True)
end = time.monotonic() + 600
while time.monotonic() < end:
    time.sleep(0.01)
    if heard and time.monotonic() - heard[0] > 1.0:
        break
print("heard", len(heard))
"""


def test_a_signal_to_every_process_of_ours_reaches_each_rank_once(way: Way) -> None:
    """A scheduler signals all tasks of a job; to none of ours it is the end."""
    (way.folder / "job.py").write_text(COUNTS)
    launch = way.start("job.py")
    out = launch.process.stdout
    assert out is not None
    ours = {process.pid for process in launch.processes}
    for _ in range(WORLD):
        agent = int(out.readline().split()[-1])
        keeper = int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1])
        ours |= {agent, keeper}
    for pid in ours:
        os.kill(pid, signal.SIGUSR2)
    code, out_rest, err = launch.end()
    assert code == 0, err
    assert out_rest.count("| heard 1\n") == WORLD, out_rest


def test_a_signal_to_a_node_reaches_all(way: Way) -> None:
    """To the one that is not the launcher's, where there is another one."""
    (way.folder / "job.py").write_text(COUNTS)
    launch = way.start("job.py")
    out = launch.process.stdout
    assert out is not None
    agents = [int(out.readline().split()[-1]) for _ in range(WORLD)]
    beside = {pid for pid in agents if agents.count(pid) == RANKS[1]} or set(agents)
    for pid in beside:
        os.kill(pid, signal.SIGUSR2)
    code, out_rest, err = launch.end()
    assert code == 0, err
    assert out_rest.count("| heard 1\n") == WORLD, out_rest
