"""`zlaunch diagnose` of real runs, and of logs of other launchers."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from journeys import ZLAUNCH, Journey

RECORDINGS = Path(__file__).parents[1] / "recordings"

# Rank 1 fails and is slow to go; rank 0 loses it, says what torch says then, and is gone first.
PEERS = """
import atexit, os, pathlib, sys, time
sys.path.insert(0, "site-packages")
import torch_like
gone = pathlib.Path("gone")
if os.environ["RANK"] == "1":
    atexit.register(lambda: (gone.touch(), time.sleep(600)))
    raise ValueError("row 17 of the data is empty")
while not gone.exists():
    time.sleep(0.01)
torch_like.wait()
"""
LIKE_TORCH = """
def wait():
    raise RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:11")
"""


def diagnosed(journey: Journey, *args: str) -> dict:
    done = journey.zlaunch("diagnose", *args, "--json")
    assert done.code == 0, done.text
    return json.loads(done.stdout)


def test_a_limit_that_ran_out_is_the_cause(journey: Journey) -> None:
    script = journey.script("import time\ndef idle():\n    time.sleep(600)\nidle()")
    hang = ("--hang-timeout", str(1.2 / 60), "--on-hang", "stop")
    assert journey.zlaunch("run", "--cpu", "2", *hang, script).code == 124
    (cause,) = diagnosed(journey)["causes"]
    assert cause["code"] == "hang"
    assert "no rank has made progress for 1" in cause["title"]
    assert cause["details"][0] == "ranks 0-1 in idle at job.py:3"
    done = journey.zlaunch("diagnose")
    assert done.out.startswith("no rank has made progress")
    uneven = journey.script("import os, time\ntime.sleep(600 * int(os.environ['RANK']))")
    assert journey.zlaunch("run", "--cpu", "2", "--exit-limit", "0.3", uneven).code == 124
    (cause,) = diagnosed(journey)["causes"]
    assert cause["code"] == "limit-ran-out"
    assert cause["title"].startswith("rank 1 still running 0.3 s after another rank")


def test_the_latest_run_is_diagnosed(journey: Journey) -> None:
    script = journey.script(
        "import os, sys, time\n"
        "print('ready', flush=True)\n"
        "if os.environ['RANK'] == '1':\n"
        "    raise ValueError('row 17 of the data is empty')\n"
        "time.sleep(600)\n"
    )
    assert journey.zlaunch("run", "--cpu", "2", "--name", "bad", script).code == 1
    done = journey.zlaunch("diagnose")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "rank 1 (exit code 1): ValueError: row 17 of the data is empty"
    assert "victims: rank 0: stopped by zlaunch" in lines
    assert "    ValueError: row 17 of the data is empty" in lines
    assert len(lines) < 24
    found = diagnosed(journey, "bad")
    assert found["failed"]
    assert [(c["code"], c["ranks"]) for c in found["causes"]] == [("exception", [1])]
    (culprit,) = found["culprits"]
    assert (culprit["rank"], culprit["exit_code"], culprit["signal"]) == (1, 1, None)
    assert found["victims"] == [{"rank": 0, "why": "stopped by zlaunch"}]
    assert found["tracebacks"][0]["ranks"] == [1]
    assert set(found) == {
        "source", "failed", "rank_is_guessed", "causes", "culprits", "victims", "tracebacks",
        "noticed",
    }  # fmt: skip


def test_advice_fits_the_recipe_and_the_config_of_the_run(journey: Journey) -> None:
    script = journey.script(
        "raise type('OutOfMemoryError', (RuntimeError,), {})(\n"
        "    'CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of '\n"
        "    '23.69 GiB of which 1.00 GiB is free.')\n"
    )
    options = ("--recipe", "zero2", "--precision", "bf16", "--micro-batch", "8")
    journey.zlaunch("run", "--cpu", "1", *options, script)
    cause = diagnosed(journey)["causes"][0]
    assert cause["code"] == "cuda-out-of-memory"
    assert "2.00 GiB asked for, 1.00 GiB of 23.69 GiB free on GPU 0" in cause["title"]
    assert cause["mends"][0].startswith("--set train_micro_batch_size_per_gpu=4 ")
    assert any("zero_optimization.stage=3" in m or "--recipe zero3" in m for m in cause["mends"])


def test_a_run_that_ended_well(journey: Journey) -> None:
    journey.zlaunch("run", "--cpu", "2", journey.script("print('done')"))
    done = journey.zlaunch("diagnose")
    assert done.code == 0
    assert done.out.startswith("no failure was found: every rank ended with 0\n")
    assert not diagnosed(journey)["failed"]


def test_who_lost_a_peer_is_a_victim_though_he_was_first(journey: Journey) -> None:
    journey.program(LIKE_TORCH, "site-packages/torch_like.py")
    journey.zlaunch("run", "--cpu", "2", journey.script(PEERS))
    assert journey.record()["outcome"]["first_failure"] == 0
    found = diagnosed(journey)
    assert [culprit["rank"] for culprit in found["culprits"]] == [1]
    assert found["causes"][0]["title"] == "ValueError: row 17 of the data is empty"
    assert found["victims"] == [{"rank": 0, "why": "connection closed by peer"}]


def test_a_killed_rank(journey: Journey) -> None:
    script = journey.script("import os; os.kill(os.getpid(), 9)")
    assert journey.zlaunch("run", "--cpu", "1", script).code == 137
    assert diagnosed(journey)["causes"][0]["code"] == "killed"


def test_a_log_of_another_launcher(journey: Journey) -> None:
    log = RECORDINGS / "nccltimeout.log"
    done = journey.zlaunch("diagnose", "--file", str(log))
    assert done.code == 0
    assert "rank 1 never came to collective 2 (ALLREDUCE)" in " ".join(done.out.split())
    found = diagnosed(journey, "--file", str(log))
    assert found["source"] == {"file": str(log)}
    line = found["causes"][0]["evidence"][0]
    printed = log.read_text().splitlines()[line["line"] - 1]
    assert line["text"] in printed


def test_a_log_from_stdin(journey: Journey) -> None:
    with (RECORDINGS / "oom.log").open("rb") as log:
        done = journey.zlaunch("diagnose", "--file", "-", stdin=log)
    assert done.code == 0
    assert "CUDA out of memory: 40.00 GiB asked for" in done.out


@pytest.mark.parametrize("name", ["overflow_stage1", "overflow_stage2", "overflow_stage3"])
def test_a_log_without_a_failure(journey: Journey, name: str) -> None:
    done = journey.zlaunch("diagnose", "--file", str(RECORDINGS / f"{name}.log"))
    assert done.code == 0
    assert done.out.startswith("no failure was found\n")
    assert "13 of 40 steps were skipped" in done.out


def test_a_large_log_in_little_memory(journey: Journey) -> None:
    """200 MB within 400 MB of address space, most of which Python takes for itself."""
    log = journey.folder / "train.log"
    block = b"".join(b"[default%d]:step %d fine\n" % (n % 2, n) for n in range(40_000))
    with log.open("wb") as file:
        for _ in range(200_000_000 // len(block)):
            file.write(block)
        file.write((RECORDINGS / "cause_torchrun_tee.log").read_bytes())
    limited = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (400 << 20,) * 2); "
        "sys.argv[0] = 'zlaunch'; runpy.run_module('zlaunch', run_name='__main__')"
    )
    done = journey.zlaunch("diagnose", "--file", str(log), command=(ZLAUNCH[0], "-c", limited))
    log.unlink()
    assert done.code == 0, done.text
    assert "rank 1 (exit code 1): ValueError: row 17 of the data is empty" in done.out


def test_a_run_that_never_started_a_rank(journey: Journey) -> None:
    program = journey.program("#!/no/such/interpreter\n", "broken.sh")
    run = journey.zlaunch("run", "--cpu", "1", "--no-python", str(program))
    assert run.code != 0
    found = diagnosed(journey)
    assert found["causes"][0]["code"] in ("nothing-started", "program-not-found", "exit-code")
    assert journey.zlaunch("diagnose").code == 0


def test_a_run_that_goes_on(journey: Journey) -> None:
    script = journey.script("import time; print('up', flush=True); time.sleep(600)")
    live = journey.start("run", "--cpu", "1", script)
    live.until("| up")
    done = journey.zlaunch("diagnose")
    assert (done.code, "is still running" in done.out) == (0, True)
    assert "no failure was found" in done.out
    live.send(signal.SIGINT)
    live.end()
    stopped = journey.zlaunch("diagnose")
    assert "no rank failed of its own" in stopped.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing"], "there is no run"),
        (["--file", "nothing.log"], "nothing.log: No such file or directory"),
        (["--file", "."], "is a directory"),
        (["x", "--file", "y"], "a run and --file are two things"),
    ],
)
def test_wrong_input(journey: Journey, args: list[str], words: str) -> None:
    done = journey.zlaunch("diagnose", *args)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.text
