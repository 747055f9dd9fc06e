"""Operators are built once before the ranks start; the real DeepSpeed and the real torch."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import time
from pathlib import Path

import pytest
from journeys import Journey, eventually

MISSING = [name for name in ("torch", "deepspeed") if importlib.util.find_spec(name) is None]
needs_both = pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}")
SHM = "deepspeed_shm_comm"
# Trains with the ds_config that it is given; torch's optimizer, so that one operator is enough.
TINY = """
import deepspeed, os, sys, torch
print("up")
if "--look" in sys.argv:
    sys.exit()
model = torch.nn.Linear(4, 1)
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), config=os.environ["ZLAUNCH_DS_CONFIG"])
for _ in range(2):
    loss = engine(torch.ones(2, 4)).pow(2).mean()
    engine.backward(loss)
    engine.step()
print("trained")
"""
OWN = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
}


@pytest.fixture
def tiny(journey: Journey) -> Journey:
    journey.script(TINY, "tiny.py")
    journey.script(json.dumps(OWN), "own.json")
    journey.env["TORCH_EXTENSIONS_DIR"] = str(journey.folder / "cache")
    return journey


def cache(journey: Journey) -> Path:
    return journey.folder / "cache"


# What is built


def planned(journey: Journey, *args: str) -> list[str]:
    done = journey.zlaunch("run", "--cpu", "2", "--dry-run", "--json", *args)
    assert done.code == 0, done.err
    names = json.loads(done.out)["operators"]
    assert isinstance(names, list)
    return names


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), [SHM, "fused_adam"]),
        (("--recipe", "zero2-offload"), [SHM, "cpu_adam"]),
        (("--ds-config", "own.json"), [SHM]),
        (("--recipe", "ddp"), [SHM]),  # what the script gives to DeepSpeed is not known
        (("--no-build-ops",), []),
    ],
)
def test_what_a_script_of_deepspeed_needs(
    tiny: Journey, options: tuple[str, ...], names: list[str]
) -> None:
    assert planned(tiny, *options, "tiny.py") == names


def test_what_other_scripts_need(journey: Journey) -> None:
    journey.script("import torch", "plain.py")
    assert planned(journey, "plain.py") == []
    assert planned(journey, "--recipe", "zero2", "plain.py") == []
    journey.script("import deepspeed", "unread.py")  # it asks for no ds_config of ours
    assert planned(journey, "unread.py") == [SHM]
    journey.script("from transformers import Trainer", "trainer.py")
    assert planned(journey, "trainer.py") == []
    assert planned(journey, "--recipe", "zero2", "trainer.py") == [SHM, "fused_adam"]
    journey.script("from accelerate import Accelerator", "accelerated.py")
    assert planned(journey, "--recipe", "zero2", "accelerated.py") == []
    assert planned(journey, "--no-python", "/bin/true") == []


def test_a_dry_run_says_it(tiny: Journey) -> None:
    done = tiny.zlaunch("run", "--cpu", "1", "--dry-run", "tiny.py")
    assert f"built first: {SHM}, fused_adam, where missing" in done.out


# A real build


@pytest.mark.deepspeed
@pytest.mark.timeout(700)  # a compiler is at work
@needs_both
def test_it_is_built_once_before_two_ranks_train(tiny: Journey) -> None:
    line = ("run", "--cpu", "2", "--ds-config", "own.json")
    done = tiny.zlaunch(*line, "tiny.py", seconds=400)
    assert done.code == 0, done.text[-3000:]
    assert done.out.count("trained\n") == 2
    assert done.err.count(f"building {SHM} for DeepSpeed, once for all ranks") == 1
    assert done.err.count(f"zlaunch: {SHM} built in ") == 1
    built = cache(tiny) / SHM / f"{SHM}.so"
    events = [json.loads(text) for text in (tiny.latest / "events.jsonl").read_text().splitlines()]
    started = [event["at"] for event in events if event["event"] == "Started"]
    assert len(started) == 2
    assert built.stat().st_mtime < min(started)
    log = (built.parent / ".ninja_log").read_text().splitlines()[1:]
    assert len(log) == len({text.split("\t")[3] for text in log}) == 3  # two sources, one library

    again = tiny.zlaunch(*line, "--start", "warm", "tiny.py", seconds=200)
    assert again.code == 0, again.text[-3000:]
    assert again.out.count("trained\n") == 2
    assert SHM not in again.err


# Builds that come to nothing; the compiler alone is not the real one


def with_compiler(journey: Journey, text: str) -> None:
    journey.env["CXX"] = str(journey.program(f"#!/bin/sh\n{text}\n", "bin/g++"))


@pytest.mark.deepspeed
@needs_both
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_a_build_that_is_stopped(tiny: Journey, signum: int) -> None:
    with_compiler(tiny, 'case "$1" in *version|-v) echo g++ 12.2.0; exit;; esac\nexec sleep 1000')
    live = tiny.start("run", "--cpu", "2", "tiny.py", "--look")
    live.until(f"building {SHM}")
    lock = cache(tiny) / SHM / "lock"
    assert eventually(lambda: any("sleep 1000" in command for command in tiny.alive().values()))
    assert lock.exists()
    live.send(signum)
    done = live.end()
    tiny.assert_gone()
    if signum == signal.SIGINT:
        assert done.code == 130
        assert "no rank was started" in done.err
        assert not lock.exists()
    assert "up" not in done.out


@pytest.mark.deepspeed
@needs_both
def test_a_compiler_that_fails_is_quoted_and_the_ranks_start(tiny: Journey) -> None:
    with_compiler(
        tiny,
        'case "$1" in *version|-v) echo g++ 12.2.0; exit;; esac\n'
        'echo "shm.cpp:7:1: error: out of ink" >&2; exit 1',
    )
    done = tiny.zlaunch("run", "--cpu", "2", "--ds-config", "own.json", "tiny.py")
    assert done.code == 1
    assert f"{SHM} could not be built: shm.cpp:7:1: error: out of ink" in done.err
    assert done.out.count("up\n") == 2
    assert f"the operator {SHM} could not be compiled" in done.err  # as the ranks found


@pytest.mark.deepspeed
@needs_both
def test_a_lock_that_was_left_is_told_and_not_waited_for(tiny: Journey) -> None:
    lock = cache(tiny) / SHM / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (time.time() - 3600, time.time() - 3600))
    done = tiny.zlaunch("run", "--cpu", "2", "--ds-config", "own.json", "tiny.py", "--look")
    assert done.code == 0
    assert f"{lock} was left by a build of {SHM} that was killed" in done.err
    assert done.out.count("up\n") == 2


# A build that takes its time; nothing is real in it but zlaunch

SLOW = """
import time
class Builder:
    NAME = "deepspeed_shm_comm"
    def load(self, verbose):
        time.sleep(4)
class Accelerator:
    def create_op_builder(self, name):
        return Builder()
def get_accelerator():
    return Accelerator()
"""


@pytest.fixture
def slow(journey: Journey) -> Journey:
    for name, text in {"torch/version.py": "", "deepspeed/accelerator.py": SLOW}.items():
        path = journey.folder / "packages" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.with_name("__init__.py").touch()
    journey.env |= {
        "PYTHONPATH": str(journey.folder / "packages"),
        "TORCH_EXTENSIONS_DIR": str(cache(journey)),
    }
    journey.script("import deepspeed, os, sys\nprint(os.environ['RANK'], 'read', sys.stdin.read())")
    return journey


def test_a_build_is_no_hang(slow: Journey) -> None:
    hang = ("--hang-timeout", str(1.2 / 60), "--on-hang", "stop")
    done = slow.zlaunch("run", "--cpu", "2", *hang, "job.py")
    assert done.code == 0, done.err
    assert f"{SHM} built in 4 s" in done.err


def test_what_is_typed_meanwhile_is_read(slow: Journey) -> None:
    (slow.folder / "typed").write_text("words")
    with (slow.folder / "typed").open() as typed:
        done = slow.zlaunch("run", "--cpu", "2", "--stdin-rank", "0", "job.py", stdin=typed)
    assert done.code == 0, done.err
    assert sorted(done.out.splitlines()) == ["0 | 0 read words", "1 | 1 read "]


def test_ranks_are_asked_for_their_stacks_meanwhile(slow: Journey) -> None:
    live = slow.start("run", "--cpu", "2", "job.py")
    live.until(f"building {SHM}")
    done = slow.zlaunch("stacks")
    assert done.code == 0, done.text
    assert live.end().code == 0


def test_quiet_says_what_went_wrong(slow: Journey) -> None:
    """Without it, ranks would wait for ever for no reason that one could see."""
    lock = cache(slow) / SHM / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (time.time() - 3600, time.time() - 3600))
    done = slow.zlaunch("run", "--cpu", "1", "--quiet", "job.py")
    assert done.code == 0
    assert f"{lock} was left by a build of {SHM} that was killed" in done.err


def test_quiet_is_quiet(slow: Journey) -> None:
    done = slow.zlaunch("run", "--cpu", "1", "--quiet", "job.py")
    assert (done.code, done.err) == (0, "")
