"""More bad input, found by people who were new to it: each case ends with one clear message."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from journeys import ZLAUNCH, Journey
from test_bad_input import refused


@pytest.fixture
def script(journey: Journey) -> str:
    return journey.script("", "train.py")


@pytest.mark.parametrize(
    ("env", "words"),
    [({"ZLAUNCH_HOME": "~nosuchuser/x"}, ["ZLAUNCH_HOME"]), ({"HOME": ""}, [])],
)
def test_homes_that_are_none(journey: Journey, script: str, env: dict, words: list[str]) -> None:
    done = journey.zlaunch("run", "-q", "--cpu", "1", script, env=env)
    assert done.code == (2 if words else 0), done.err
    assert "Traceback" not in done.err
    assert all(word in done.err for word in words)


def test_a_module_of_another_interpreter_is_left_to_it(journey: Journey) -> None:
    program = journey.program('#!/bin/sh\necho "got $*"\n', "python")
    done = journey.zlaunch("run", "-q", "--cpu", "1", "--python", str(program), "-m", "onlythere")
    assert done.out == "0 | got -m onlythere\n"


@pytest.mark.parametrize("command", [["--help"], ["run", "--dry-run", "--cpu", "1"]])
def test_an_output_that_takes_nothing(journey: Journey, script: str, command: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        more = [script] if "run" in command else []
        process = journey.popen(*command, *more, stdout=full, stderr=subprocess.PIPE)
        said = process.stderr.read().decode()
    assert process.wait(60) == 125
    assert said.startswith("zlaunch: error: ")
    assert "Traceback" not in said


def test_a_command_that_is_none(journey: Journey) -> None:
    assert "did you mean run?" in refused(journey, "rnu")
    assert "did you mean rm or run?" in refused(journey, "rum")


@pytest.mark.parametrize(
    "name", ["", "two\nlines", "\x1b[2J", "-d", "a" * 61, "20261201-012920-78c280e3"]
)
def test_names_that_no_run_can_have(journey: Journey, script: str, name: str) -> None:
    assert "--name" in refused(journey, "run", "--cpu", "1", "--name", name, script)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("run --nnodes 2 t.py", "zlaunch multinode --hostfile FILE"),
        ("run --nproc_per_node=2 t.py", "--nproc N"),
        ("run --mixed_precision bf16 t.py", "--precision bf16"),
        ("multinode --launcher pdsh t.py", "--ssh paramiko or openssh"),
        ("multinode --ssh_port 22 t.py", "port= in the hostfile"),
        ("multinode --no_ssh t.py", "zlaunch join"),
        ("multinode --nnodes=2 t.py", "--num-nodes N"),
        ("multinode --gpus 0 t.py", "--include HOST:0,2"),
        ("join --rdzv_backend=c10d t.py", "leave it out"),
        ("join --setup x t.py", "set up already"),
        ("run --no-such-thing t.py", "zlaunch run --help"),
        ("train.py --lr 1", "zlaunch run train.py"),
    ],
)
def test_options_of_other_launchers_are_answered(journey: Journey, words: str, hint: str) -> None:
    done = journey.zlaunch(*words.split())
    assert (done.code, done.out) == (2, "")
    assert hint in done.err.splitlines()[1]


@pytest.mark.parametrize("most", range(12, 24, 2))
def test_wherever_files_run_out_the_way_out_is_named(journey: Journey, most: int) -> None:
    command = ("sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", *ZLAUNCH)
    done = journey.zlaunch("run", "--cpu", "2", journey.script("print('up')"), command=command)
    assert done.code == 0 or "raise `ulimit -n`" in done.err, done.err
    assert "Traceback" not in done.err
