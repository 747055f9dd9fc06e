"""How runs end: exit codes, the first failure last on the screen, fail fast."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from journeys import Journey

FAIL_AND_WAIT = """
import os, sys, time, pathlib
if os.environ["RANK"] == sys.argv[1]:
    while len(list(pathlib.Path().glob("up-*"))) < int(os.environ["WORLD_SIZE"]) - 1:
        time.sleep(0.01)
    {fail}
pathlib.Path("up-" + os.environ["RANK"]).touch()
time.sleep(600)
"""


def quiet_failure(journey: Journey, fail: str, rank: int = 1, world: int = 2, *options: str):
    """Rank `rank` fails once all others are up; they would sleep for ten minutes."""
    script = journey.script(FAIL_AND_WAIT.format(fail=fail))
    began = time.monotonic()
    done = journey.zlaunch("run", "--cpu", str(world), *options, script, str(rank))
    assert time.monotonic() - began < 25  # the others were stopped, not waited for
    journey.assert_gone()
    return done


@pytest.mark.parametrize("code", [0, 1, 3, 42, 255])
def test_the_ranks_code_is_ours(journey: Journey, code: int) -> None:
    script = journey.script(f"import sys; sys.exit({code})")
    for world in ("1", "2"):
        done = journey.zlaunch("run", "--cpu", world, script)
        assert done.code == code
        assert ("finished" if code == 0 else f"exit code {code}") in done.err
        assert journey.record()["exit_code"] == code


@pytest.mark.parametrize(
    ("name", "code"), [("KILL", 137), ("SEGV", 139), ("ABRT", 134), ("BUS", 135), ("TERM", 143)]
)
def test_a_rank_that_a_signal_ended(journey: Journey, name: str, code: int) -> None:
    done = quiet_failure(journey, f"import signal; os.kill(os.getpid(), signal.SIG{name})")
    assert done.code == code
    assert f"SIG{name}" in done.err
    assert "rank 1" in done.err


@pytest.mark.parametrize("code", [1, 3, 42])
@pytest.mark.parametrize("rank", [0, 1])
def test_one_rank_of_two(journey: Journey, rank: int, code: int) -> None:
    done = quiet_failure(journey, f"sys.exit({code})", rank)
    assert done.code == code
    assert f"rank {rank}" in done.err
    assert f"rank {1 - rank}: stopped by zlaunch" in done.err
    assert journey.record()["state"] == "failed"
    assert journey.record()["outcome"]["first_failure"] == rank


def test_one_rank_of_four_stops_three(journey: Journey) -> None:
    done = quiet_failure(journey, "sys.exit(9)", 2, 4)
    assert done.code == 9
    assert "ranks 0-1, 3: stopped by zlaunch" in done.err


def test_ranks_that_end_well_early_are_no_failure(journey: Journey) -> None:
    script = journey.script("""
import os, pathlib, sys, time
if os.environ["RANK"] == "0":
    sys.exit(0)
time.sleep(0.5)
print("last")
""")
    done = journey.zlaunch("run", "--cpu", "2", script)
    assert (done.code, done.out) == (0, "1 | last\n")


@pytest.mark.parametrize("shown", [[], ["--console-ranks", "0"]])
def test_the_first_failure_is_named_last_with_its_traceback(
    journey: Journey, shown: list[str]
) -> None:
    fail = "print('before'); raise ValueError('the real reason')"
    done = quiet_failure(journey, fail, 1, 3, *shown)
    assert done.code == 1
    tail = done.err.splitlines()[-30:]
    text = "\n".join(tail)
    assert "rank 1" in text
    assert "failed first" in text
    assert "1 | ValueError: the real reason" in tail
    assert 'File "' in text
    assert "job.py" in text
    assert str(journey.latest / "logs") in tail[-1]
    assert "launcher.py" not in done.text  # no frames of ours
    assert ("1 | before" in done.out) is (not shown)


def test_a_deep_traceback_of_a_hidden_rank_names_the_users_line(journey: Journey) -> None:
    """Frames of libraries come in dozens; where it began is the user's own file."""
    journey.script(
        "def down(n):\n    up(n)\n\ndef up(n):\n    if n: down(n - 1)\n    1 / 0\n", "lib.py"
    )
    script = journey.script("import lib\nlib.down(20)  # the user's own line\n")
    done = journey.zlaunch("run", "--cpu", "1", "--console-ranks", "0", script)
    assert done.code == 1
    assert "ZeroDivisionError" in done.err
    assert "0 | Traceback (most recent call last):" in done.err
    assert "the user's own line" in done.err


def test_all_ranks_fail_at_once(journey: Journey) -> None:
    script = journey.script("raise SystemExit(5)")
    done = journey.zlaunch("run", "--cpu", "4", script)
    assert done.code == 5
    assert done.err.count("failed first") == 1
    journey.assert_gone()


def test_stubborn_ranks_are_killed_after_the_grace(journey: Journey) -> None:
    """All of them under one deadline, not one after another."""
    script = journey.script("""
import os, pathlib, signal, sys, time
for name in ("TERM", "INT", "HUP"):
    signal.signal(getattr(signal, "SIG" + name), signal.SIG_IGN)
pathlib.Path("up-" + os.environ["RANK"]).touch()
if os.environ["RANK"] == "0":
    while len(list(pathlib.Path().glob("up-*"))) < 4:
        time.sleep(0.01)
    sys.exit(3)
time.sleep(600)
""")
    began = time.monotonic()
    done = journey.zlaunch("run", "--cpu", "4", "--grace", "1", script)
    assert done.code == 3
    assert "ranks 1-3" in done.err
    assert "KILL" in done.err
    assert 1 <= time.monotonic() - began < 20
    journey.assert_gone()


def test_a_long_grace_is_no_wait_for_obedient_ranks(journey: Journey) -> None:
    for grace in ("100", "1e9", "1e300"):
        done = quiet_failure(journey, "sys.exit(3)", 1, 2, "--grace", grace)
        assert done.code == 3, grace
        assert "Traceback" not in done.err


def test_term_reaches_the_main_process_alone(journey: Journey) -> None:
    """A data loader that dies by the TERM would take the checkpoint with it."""
    script = journey.script("""
import os, pathlib, signal, subprocess, sys, time
if os.environ["RANK"] == "1":
    while not pathlib.Path("up").exists():
        time.sleep(0.01)
    sys.exit(4)
child = subprocess.Popen(["sleep", "600"])
def save(*_):
    time.sleep(1)
    print("child is", child.poll(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path("up").touch()
time.sleep(600)
""")
    done = journey.zlaunch("run", "--cpu", "2", script)
    assert done.code == 4
    assert "0 | child is None" in done.out
    journey.assert_gone()


def test_a_rank_that_is_stopped_can_be_ended(journey: Journey) -> None:
    script = journey.script("""
import os, pathlib, signal, sys, time
if os.environ["RANK"] == "1":
    while not pathlib.Path("up").exists() or "T" not in open(pathlib.Path("up").read_text()).read():
        time.sleep(0.01)
    sys.exit(6)
pathlib.Path("up.new").write_text(f"/proc/{os.getpid()}/stat")
os.rename("up.new", "up")
os.kill(os.getpid(), signal.SIGSTOP)
""")
    began = time.monotonic()
    assert journey.zlaunch("run", "--cpu", "2", script).code == 6
    assert time.monotonic() - began < 25
    journey.assert_gone()


def test_grandchildren_are_gone_with_a_run_that_ends_well(journey: Journey) -> None:
    script = journey.script("""
import os, subprocess
for new in (False, True):
    subprocess.Popen(["sleep", "600"], start_new_session=new)
if not os.fork():  # a daemon of the old school: forked twice, in a session of its own
    os.setsid()
    if not os.fork():
        for fd in (0, 1, 2):
            os.close(fd)
        os.execvp("sleep", ["sleep", "600"])
    os._exit(0)
os.wait()
print("done", flush=True)
""")
    began = time.monotonic()
    done = journey.zlaunch("run", "--cpu", "2", script)
    assert done.code == 0
    assert sorted(done.out.splitlines()) == ["0 | done", "1 | done"]
    assert time.monotonic() - began < 25
    journey.assert_gone()


def test_a_child_that_holds_the_pipe_holds_nothing_up(journey: Journey) -> None:
    for new_session in (False, True):
        script = journey.script(f"""
import subprocess, sys
print("rank ends", flush=True)
subprocess.Popen(["sh", "-c", "echo child speaks; exec sleep 600"], start_new_session={new_session})
import time; time.sleep(0.5)
sys.exit(11)
""")
        began = time.monotonic()
        done = journey.zlaunch("run", "--cpu", "1", script)
        assert done.code == 11
        assert time.monotonic() - began < 25
        assert done.out.splitlines() == ["0 | rank ends", "0 | child speaks"]
        journey.assert_gone()


def test_ten_thousand_lines_and_a_sudden_end(journey: Journey) -> None:
    script = journey.script("""
import os, sys
sys.stdout.write("".join(f"line {i:05}\\n" for i in range(9999)) + "the last words")
sys.stdout.flush()
os._exit(1)
""")
    done = journey.zlaunch("run", "--cpu", "2", script)
    assert done.code == 1
    lines = [f"line {i:05}" for i in range(9999)] + ["the last words"]
    # The other rank fails too, or is stopped on its way: the first to fail is whole.
    rank = journey.record()["outcome"]["first_failure"]
    assert [x for x in done.out.splitlines() if x.startswith(f"{rank} |")] == [
        f"{rank} | {line}" for line in lines
    ]
    assert journey.log(rank) == "\n".join(lines).encode()
    assert f"{rank} | the last words" in done.err


def test_a_program_that_cannot_be_executed(journey: Journey) -> None:
    journey.program("echo no first line\n", "broken.sh")
    done = journey.zlaunch("run", "--cpu", "2", "--no-python", "./broken.sh")
    assert done.code == 125
    assert "Exec format error" in done.err
    assert "Traceback" not in done.err
    journey.assert_gone()


# What DeepSpeed's operator for CPUs makes in each rank, and never takes away.
BUFFER = """
import os, pathlib, sys, time
name = "_".join([str(os.getuid()), *(os.environ[n] for n in ("MASTER_ADDR", "MASTER_PORT"))])
name = "/dev/shm/deepspeed_allreduce_buffer_" + name + "_" + os.environ["RANK"]
print(name, os.path.exists(name), flush=True)
pathlib.Path(name).touch(exist_ok=False)
while not os.path.exists(name[:-1] + str(1 - int(os.environ["RANK"]))):
    time.sleep(0.01)
if os.environ["RANK"] == "1":
    eval(sys.argv[1])
time.sleep(600)
"""


@pytest.mark.parametrize(
    "end", ["sys.exit(3)", "os.kill(os.getpid(), 9)", "os.kill(os.getppid(), 15)"]
)
def test_no_shared_memory_is_left(journey: Journey, end: str) -> None:
    """Neither by an attempt for the next one, which meets at the same address, nor at the end."""
    again = ("--healthy-after", "0", "--max-restarts", "1")
    done = journey.zlaunch("run", "--cpu", "2", *again, journey.script(BUFFER), end)
    assert done.code in (3, 137, 143)
    lines = [line.partition("| ")[2].split() for line in done.out.splitlines()]
    assert [there for _, there in lines] == ["False"] * len(lines)
    names = {name for name, _ in lines}
    assert len(names) >= 2
    assert [name for name in names if Path(name).exists()] == []
