"""What a warm start does when something is in doubt, goes wrong, or is stopped."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from forking import TELL, WARM, how, library
from journeys import Journey, children_of, eventually


def test_ranks_are_forked(journey: Journey) -> None:
    journey.script(TELL)
    done, ranks = how(journey, "--preload", "json")
    assert ranks == [b"warm", b"warm"]
    assert done.code == 0
    assert "cold start" not in done.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import os\nos.environ.get('RANK')", "RANK is read by an import"),
        ("import os\n'LOCAL_RANK' in os.environ", "LOCAL_RANK is read by an import"),
        ("import os\nos.environb[b'LOCAL_RANK'] = b'3'", "LOCAL_RANK is read by an import"),
        ("import os\nos.getenv('NO', os.getenv('ROLE_RANK'))", "ROLE_RANK is read by an import"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit('no')", "SystemExit: no"),
        ("import not_there", "ModuleNotFoundError: No module named 'not_there'"),
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start()",
            "an import starts a thread",
        ),
        ("import subprocess\nsubprocess.Popen(['sleep', '9'])", "an import starts a process"),
        ("import socket\ns = socket.socket()", "an import opens socket:"),
        ("f = open('log.txt', 'a')", "an import opens "),
        ("f = open(__file__)", "an import opens "),  # each would read on where another did
        ("import os\np = os.pipe()", "an import opens pipe:"),
        ("print('x' * 300_000)", "imports print too much"),
        ("import os\nos.kill(os.getpid(), 9)", "the process that imports ended too early"),
        ("import os\nos._exit(0)", "the process that imports ended too early"),
    ],
)
def test_in_doubt_ranks_start_cold(journey: Journey, text: str, why: str) -> None:
    library(journey, text)
    journey.script(TELL)
    done, ranks = how(journey, "--preload", "lib")
    assert ranks == [b"cold", b"cold"]
    assert f"cold start: {why}" in done.err
    assert done.err.count("cold start") == 1
    assert done.code == 0


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"COVERAGE_PROCESS_START": "x"}, "COVERAGE_PROCESS_START is set"),
        ({"PYTHONPROFILEIMPORTTIME": "1"}, "PYTHONPROFILEIMPORTTIME is set"),
        ({"PYTHONFAULTHANDLER": "1"}, "PYTHONFAULTHANDLER is set"),
        ({"LD_PRELOAD": "/lib/libnot.so"}, "LD_PRELOAD is set"),
    ],
)
def test_hooks_are_not_shared(journey: Journey, env: dict[str, str], why: str) -> None:
    journey.script(TELL)
    journey.env |= env
    done, _ = how(journey, "--preload", "json")
    assert f"cold start: {why}" in done.err
    assert done.code == 0
    done, ranks = how(journey, "--preload", "json", "--start", "auto")  # the last one counts
    assert all(b"cold" in rank for rank in ranks)
    assert "cold start" not in done.err  # it was not asked for, and has cost nothing


def test_an_interpreter_that_is_a_script(journey: Journey) -> None:
    """It may take the environment away, and then no server would come of it."""
    wrapper = journey.program(f'#!/bin/sh\nexec {sys.executable} -I "$@"\n', "python.sh")
    journey.script(TELL)
    done, ranks = how(journey, "--preload", "json", "--python", str(wrapper))
    assert ranks == [b"cold", b"cold"]
    assert "is no binary" in done.err


def test_a_file_beside_the_script_is_the_users(journey: Journey) -> None:
    """`from datasets import ...` may be of the user's own folder; what comes after it, too."""
    journey.script("import numpy\nimport datasets\nimport sklearn\n" + TELL)
    journey.script("import os\nprint('own', os.environ['RANK'])", "datasets.py")
    journey.script("print('own')", "sklearn.py")
    done, ranks = how(journey)
    assert ranks == [b"own 0\nown\nwarm", b"own 1\nown\nwarm"]
    assert "cold start" not in done.err


def test_one_on_the_users_path_is_the_users(journey: Journey) -> None:
    """It may remember whose it is."""
    library(journey, "import os\nPID = os.getpid()", "evaluate")
    journey.script("import numpy\nimport evaluate, os\nprint(evaluate.PID == os.getpid())\n" + TELL)
    assert how(journey)[1] == [b"True\nwarm"] * 2


def test_a_package_comes_before_its_module(journey: Journey) -> None:
    text = "import os\nos.environ['OMP_NUM_THREADS'] = '3'\n"
    journey.program("import numpy\n" + TELL, "pack/part.py")
    for init, told in (("x = 1\n", b"warm"), (text, b"cold")):
        journey.program(init, "pack/__init__.py")
        done = journey.zlaunch("run", *WARM, "-m", "pack.part")
        assert [journey.log(rank) for rank in (0, 1)] == [told + b"\n"] * 2
    assert "cold start: pack.part, or a package around it, does not begin" in done.err


def test_a_hook_of_the_users_is_watched_as_well(journey: Journey) -> None:
    library(journey, "import os\nos.environ['MARK'] = os.environ['RANK']", "sitecustomize")
    journey.script("import numpy, os\nprint(os.environ['MARK'])\n" + TELL)
    done, ranks = how(journey)
    assert ranks == [b"0\ncold", b"1\ncold"]
    assert "cold start: RANK is read by an import" in done.err


def test_what_is_asked_for_and_cannot_be(journey: Journey) -> None:
    journey.script(TELL)
    for options, why in (
        ((), "the script does not begin with an import that takes long"),
        (("--no-python", "--preload", "json"), "--no-python"),
    ):
        script = "/bin/true" if "--no-python" in options else "job.py"
        done = journey.zlaunch("run", *WARM, *options, script)
        assert f"cold start: {why}" in done.err
        assert done.code == 0


def test_one_rank_alone(journey: Journey) -> None:
    """It gains nothing, so it is forked where that was asked for."""
    library(journey, "import os\nrank = os.environ['RANK']")  # its own, since nobody shares it
    journey.script("import lib\nprint(lib.rank)\n" + TELL)
    for start, expected in (("warm", b"0\nwarm\n"), ("auto", b"0\ncold\n")):
        done = journey.zlaunch("run", "--cpu", "1", "--start", start, "--preload", "lib", "job.py")
        assert (done.code, journey.log(0)) == (0, expected)
        assert "cold start" not in done.err


def test_auto_says_nothing(journey: Journey) -> None:
    journey.script(TELL)
    done, ranks = how(journey, "--start", "auto")
    assert ranks == [b"cold", b"cold"]
    assert "cold" not in done.err
    journey.script("import numpy\n" + TELL)
    done, ranks = how(journey, "--start", "auto")
    assert ranks == [b"warm", b"warm"]


def test_no_name_of_a_module(journey: Journey) -> None:
    journey.script(TELL)
    done = journey.zlaunch("run", *WARM, "--preload", "a b", "job.py")
    assert (done.code, "--preload a b: a b is no name of a module" in done.err) == (2, True)


def test_the_rank_that_reads_starts_cold(journey: Journey) -> None:
    journey.script("import sys\nprint(sys.stdin.readline().strip())\n" + TELL)
    read, write = os.pipe()
    os.write(write, b"typed\n")
    os.close(write)
    options = ("--cpu", "3", "--preload", "json", "--stdin-rank", "1")
    done = journey.zlaunch("run", *WARM, *options, "job.py", stdin=read)
    os.close(read)
    assert [journey.log(rank) for rank in range(3)] == [b"\nwarm\n", b"typed\ncold\n", b"\nwarm\n"]
    assert done.code == 0


def test_each_attempt_imports_anew(journey: Journey) -> None:
    journey.script(TELL + "import os, sys\nsys.exit(os.environ['ZLAUNCH_RESTART_COUNT'] == '0')")
    options = ("--max-restarts", "1", "--healthy-after", "0")
    done, ranks = how(journey, "--preload", "json", *options)
    assert done.code == 0
    assert ranks == [b"warm", b"warm"]
    logs = sorted(path.name for path in (journey.latest / "logs").iterdir())
    assert logs == ["rank-0.1.log", "rank-0.log", "rank-1.1.log", "rank-1.log"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="without torch")
def test_threads_with_which_an_import_has_computed(journey: Journey) -> None:
    """GNU's OpenMP would wait for them in each rank, for ever."""
    computes = "import torch\ntorch.ones(1 << 22).exp().sum()\n"
    library(journey, computes)
    journey.script(computes + TELL)
    journey.env["OMP_NUM_THREADS"] = "2"
    done, ranks = how(journey, "--preload", "lib")
    assert done.code == 0
    assert ranks == [b"warm", b"warm"]


def test_stop_while_it_imports(journey: Journey) -> None:
    library(journey, "import time\nopen('importing', 'w').close()\ntime.sleep(60)")
    journey.script("import lib")
    live = journey.start("run", *WARM, "--preload", "lib", "job.py")
    assert eventually((journey.folder / "importing").exists)
    began = time.monotonic()
    live.send(signal.SIGTERM)
    done = live.end()
    assert time.monotonic() - began < 20  # before the grace is over
    assert done.code == 143
    assert "cold start" not in done.err
    journey.assert_gone()


def test_killed_with_its_agent(journey: Journey) -> None:
    library(journey, "import time\nopen('importing', 'w').close()\ntime.sleep(60)")
    journey.script("import lib")
    live = journey.start("run", *WARM, "--preload", "lib", "job.py")
    assert eventually((journey.folder / "importing").exists)
    live.send(signal.SIGKILL)
    live.end()
    journey.assert_gone()


def test_forked_ranks_die_with_their_agent(journey: Journey) -> None:
    journey.script(TELL + "import time\ntime.sleep(60)")
    live = journey.start("run", *WARM, "--preload", "json", "job.py")
    live.until("warm", count=2)
    (agent,) = children_of(live.pid)
    assert len(children_of(agent)) == 2
    os.kill(agent, signal.SIGKILL)
    assert live.end().code == 125
    journey.assert_gone()


def test_forked_ranks_can_be_asked_where_they_are(journey: Journey) -> None:
    journey.script("import time\ndef here():\n    print('up')\n    time.sleep(60)\nhere()")
    live = journey.start("run", *WARM, "--preload", "json", "job.py")
    live.until("up", count=2)
    shown = journey.zlaunch("stacks")
    assert "job.py:4" in shown.text
    assert "cannot be taken" not in shown.text
    live.send(signal.SIGTERM)
    live.end()


def test_nothing_of_it_stays(journey: Journey, tmp_path: Path) -> None:
    """Neither its directory nor the process that imported."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    journey.env["TMPDIR"] = str(temporary)
    journey.script(TELL + "import time\ntime.sleep(60)")
    live = journey.start("run", *WARM, "--preload", "json", "job.py")
    live.until("warm", count=2)
    assert len(list(temporary.iterdir())) == 1  # the stack handler's
    live.send(signal.SIGTERM)
    live.end()
    assert list(temporary.iterdir()) == []
