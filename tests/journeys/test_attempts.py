"""Runs that are started again, and runs whose ranks do not end together."""

from __future__ import annotations

import signal

import pytest
from journeys import Journey

COUNTS = """
import json, os, pathlib, sys, time
attempt, rank = int(os.environ["ZLAUNCH_RESTART_COUNT"]), int(os.environ["RANK"])
seen = [os.environ[f"TORCHELASTIC_{n}"] for n in ("RESTART_COUNT", "MAX_RESTARTS", "ERROR_FILE")]
print("attempt", attempt, *seen[:2], pathlib.Path(seen[2]).name, flush=True)
sys.stdout.write("no end")
sys.stdout.flush()
while len(list(pathlib.Path().glob(f"up-{attempt}-*"))) < 2:
    pathlib.Path(f"up-{attempt}-{rank}").touch()
    time.sleep(0.01)
while sys.argv[3:] and not pathlib.Path(sys.argv[3]).exists():
    time.sleep(0.01)
if rank == 1 and attempt < int(sys.argv[1]):
    sys.exit(int(sys.argv[2]) + attempt)
if rank == 0 and attempt < int(sys.argv[1]):
    time.sleep(600)
"""
AGAIN = ("--healthy-after", "0")


def run(journey: Journey, failures: int, code: int, *options: str):
    script = journey.script(COUNTS)
    line = ("run", "--cpu", "2", *AGAIN, *options, script, str(failures), str(code))
    return journey.zlaunch(*line)


def test_the_third_attempt_succeeds(journey: Journey) -> None:
    done = run(journey, 2, 7, "--max-restarts", "3")
    assert done.code == 0
    for attempt in range(3):
        name = f"rank-0.{attempt}.json" if attempt else "rank-0.json"
        assert f"0 | attempt {attempt} {attempt} 3 {name}" in done.out
    assert "restart 1 of 3 in 1 s" in done.err
    assert "attempt 0: rank 1 failed after" in done.err
    assert "exit code 8" in done.err.partition("attempt 1: rank 1 failed after")[2]
    assert "finished: 2 ranks, 3 attempts" in done.err
    kept = journey.record()["outcome"]["past"]
    assert [(one["attempt"], one["code"]) for one in kept] == [(0, 7), (1, 8)]
    names = sorted(path.name for path in (journey.latest / "logs").iterdir())
    assert names == [f"rank-{rank}.{n}" for rank in (0, 1) for n in ("1.log", "2.log", "log")]
    journey.assert_gone()


def test_when_no_more_are_allowed_the_last_failure_counts(journey: Journey) -> None:
    done = run(journey, 9, 40, "--max-restarts", "1")
    assert done.code == 41
    assert "not started again: --max-restarts 1 allows no more" in done.err
    assert "rank 1" in done.err.splitlines()[-2] or "no end" in done.err.splitlines()[-2]
    assert "failed (exit code 41): 2 ranks, 2 attempts" in done.err
    journey.assert_gone()


def test_a_final_exit_code_ends_it(journey: Journey) -> None:
    done = run(journey, 9, 93, "--max-restarts", "5")
    assert done.code == 93
    assert "not started again: exit code 93 is final" in done.err


def test_a_failure_at_once_would_come_again(journey: Journey) -> None:
    script = journey.script("raise SystemExit(3)")
    done = journey.zlaunch("run", "--cpu", "1", "--max-restarts", "5", script)
    assert done.code == 3
    assert "sooner than --healthy-after 30" in done.err
    assert done.err.count("failed first") == 1


def test_logs_show_all_attempts_each_with_its_last_line(journey: Journey) -> None:
    run(journey, 1, 7, "--max-restarts", "1")
    shown = journey.zlaunch("logs", "show", "--rank", "0").out.splitlines()
    assert [line[4:11] for line in shown] == ["attempt", "no end", "attempt", "no end"]
    tail = journey.zlaunch("logs", "tail", "--no-follow", "--rank", "0").out
    assert "attempt 1" in tail and "attempt 0" not in tail
    paths = journey.zlaunch("logs", "path", "--rank", "1").out.split()
    assert [path.rpartition("/")[2] for path in paths] == ["rank-1.log", "rank-1.1.log"]


def test_a_follower_goes_on_into_the_next_attempt(journey: Journey) -> None:
    script = journey.script(COUNTS)
    options = ("--max-restarts", "1", "--healthy-after", "0")
    live = journey.start("run", "--cpu", "2", *options, script, "1", "7", "go")
    live.until("| attempt 0", count=2)
    tail = journey.start("logs", "tail", "--rank", "0")
    tail.until("attempt 0")
    journey.script("", "go")
    assert live.end().code == 0
    seen = tail.end().out
    assert "0 | attempt 1 1 1" in seen
    assert seen.count("no end") == 2


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_pause_ends_the_run(
    journey: Journey, signum: signal.Signals, code: int
) -> None:
    script = journey.script(COUNTS)
    live = journey.start("run", "--cpu", "2", *AGAIN, "--max-restarts", "9", script, "9", "7")
    live.until("restart 2 of 9 in 2 s")
    live.send(signum)
    done = live.end()
    assert done.code == code
    assert "attempt 1: rank 1 failed" in done.err
    assert f"was stopped by {signum.name} (exit code {code}): 2 ranks, 2 attempts" in done.err
    journey.assert_gone()


# Attempt 0 fails in all ranks at once; in the next they say that they are up, and do what is asked.
ALIKE = """
import os, sys, time
if os.environ["ZLAUNCH_RESTART_COUNT"] == "0":
    sys.exit(3)
def deeper(n):
    return sum(range(n))
def other(many):
    for n in many: deeper(n)
def works():
    print("up", flush=True)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        for work in (sorted, list, other): work(list(range(9)) * 99)
works()
"""


def test_stacks_are_those_of_the_attempt_that_runs(journey: Journey) -> None:
    folder = journey.folder / "tmp"
    folder.mkdir()
    options = (*AGAIN, "--max-restarts", "1")
    env = {"TMPDIR": str(folder)}
    live = journey.start("run", "--cpu", "2", *options, journey.script(ALIKE), "600", env=env)
    live.until("restart 1 of 1")
    assert "ranks 0-1 (has ended: exit code 3)" in journey.zlaunch("stacks").out
    live.until("| up", count=2)
    told = journey.zlaunch("stacks").out
    assert "at job.py:" in told
    assert "has ended" not in told
    live.send(signal.SIGINT)
    assert live.end().code == 130
    assert not list(folder.iterdir())  # what holds the handler is one directory for all attempts


def test_hangs_are_watched_for_in_each_attempt_alone(journey: Journey) -> None:
    """Nothing hangs in a pause, and a rank of the second attempt that works is progress."""
    options = (*AGAIN, "--max-restarts", "1", "--hang-timeout", str(1.2 / 60), "--on-hang", "stop")
    done = journey.zlaunch("run", "--cpu", "2", *options, journey.script(ALIKE), "5")
    assert done.code == 0
    assert "progress" not in done.err


def test_an_attempt_is_told_of_by_the_rank_that_failed_of_its_own(journey: Journey) -> None:
    text = """
import os, time
if os.environ["RANK"] == "0":
    raise RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:11")
time.sleep(0.2)
os._exit(93 if os.environ["ZLAUNCH_RESTART_COUNT"] == "1" else 9)
"""
    options = (*AGAIN, "--max-restarts", "5")
    done = journey.zlaunch("run", "--cpu", "2", *options, journey.script(text))
    assert done.code == 93
    assert "attempt 0: rank 1 failed after" in done.err
    assert "not started again: exit code 93 is final" in done.err
    (kept,) = journey.record()["outcome"]["past"]
    assert (kept["first_failure"], kept["code"]) == (1, 9)


@pytest.mark.parametrize("option", ["--max-restarts=-1", "--healthy-after=-1", "--exit-limit=nan"])
def test_numbers_that_mean_nothing(journey: Journey, option: str) -> None:
    done = journey.zlaunch("run", "--cpu", "1", option, journey.script("pass"))
    assert done.code == 2
    assert option.partition("=")[0] in done.err


def test_who_is_left_alone_is_stopped_after_the_limit(journey: Journey) -> None:
    script = journey.script("import os, time\nif os.environ['RANK'] != '1': time.sleep(600)")
    done = journey.zlaunch("run", "--cpu", "3", "--exit-limit", "0.5", script)
    assert done.code == 124
    assert "ranks 0, 2 still running 0.5 s after another rank ended with 0" in done.err
    assert journey.record()["state"] == "failed"
    assert "--exit-limit" in journey.record()["outcome"]["limit"]
    journey.assert_gone()
