"""Leases of GPUs, on a machine with four of them that are none: real launches throughout."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from itertools import pairwise

import pytest
from fake_nvml import Gpus
from journeys import Journey, Live, children_of

GIB = 1 << 30
# Says which GPUs it has, writes down when it had them, and ends when it is let go.
JOB = """
import os, pathlib, sys, time
begin, gpus = time.monotonic(), os.environ["CUDA_VISIBLE_DEVICES"]
print("on", gpus, flush=True)
until = sys.argv[1]
def over():
    if until.isalpha():
        return pathlib.Path(until).exists()
    return time.monotonic() > begin + float(until)
while not over():
    time.sleep(0.01)
if os.environ["LOCAL_RANK"] == "0":
    with open("had", "a") as file:
        file.write(f"{gpus} {begin} {time.monotonic()}\\n")
"""


def holding(journey: Journey, *options: str, until: str = "go") -> Live:
    """A run that has its GPUs."""
    live = journey.start("run", *options, journey.script(JOB), until)
    live.until("| on ")
    return live


def go(journey: Journey, until: str = "go") -> None:
    (journey.folder / until).touch()


def seen(text: str) -> list[str]:
    """The GPUs of rank 0, in the order in which runs began."""
    return [line.split()[-1] for line in text.splitlines() if line.startswith("0 | on ")]


def test_twenty_at_once_never_overlap(journey: Journey, gpus: Gpus) -> None:
    choice = random.Random(4)
    script = journey.script(JOB)
    kinds = [
        ("--idle", "--num-gpus", "1"),
        ("--idle", "--num-gpus", "2"),
        ("--num-gpus", "1"),
        ("--gpus", "2,1"),
        ("--gpus", gpus.uuids[3]),
    ]
    launches = [
        journey.start("run", "--wait", *kinds[i % 5], script, f"{choice.uniform(0.05, 0.3):.2f}")
        for i in range(20)
    ]
    for launch in launches:
        done = launch.end(110)
        assert done.code == 0, done.err
    had: dict[str, list[tuple[float, float]]] = {}
    lines = (journey.folder / "had").read_text().splitlines()
    assert len(lines) == 20
    for line in lines:
        names, begin, end = line.split()
        for name in names.split(","):
            index = name if name.isdigit() else str(gpus.uuids.index(name))
            had.setdefault(index, []).append((float(begin), float(end)))
    assert sum(map(len, had.values())) == 4 * (1 + 2 + 1 + 2 + 1)
    for times in had.values():
        assert all(a[1] < b[0] for a, b in pairwise(sorted(times))), had


def test_a_gpu_that_is_held_is_refused_and_named(journey: Journey, gpus: Gpus) -> None:
    first = holding(journey, "--num-gpus", "2")
    run_id = journey.runs[0].name
    for options, held in (
        (("--num-gpus", "1"), "GPU 0 is"),
        (("--gpus", gpus.uuids[1]), f"{gpus.uuids[1]} is"),
        ((), "GPUs 0,1 are"),
    ):
        done = journey.zlaunch("run", *options, "job.py", "0")
        assert (done.code, done.out) == (2, "")
        assert f"{held} held by run {run_id} of " in done.err
        assert "nothing was started" in done.err
        assert "--wait" in done.err
        assert "--share-gpus" in done.err
    assert seen(journey.zlaunch("run", "--gpus", "2", "job.py", "0").out) == ["2"]
    assert seen(journey.zlaunch("run", "--share-gpus", "--gpus", "1", "job.py", "0").out) == ["1"]
    assert journey.zlaunch("run", "--cpu", "1", "job.py", "0").code == 0
    go(journey)
    assert first.end().code == 0
    assert seen(journey.zlaunch("run", "--num-gpus", "1", "job.py", "0").out) == ["0"]


def test_idle_takes_what_nobody_uses(journey: Journey, gpus: Gpus) -> None:
    gpus.used(gpus.uuids[0], memory=20 * GIB, pid=os.getpid())
    gpus.used(gpus.uuids[1], memory=GIB)
    gpus.used(gpus.uuids[2], percent=60)
    script = journey.script(JOB)

    def run(*options: str, visible: str | None = None) -> list[str]:
        env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        return seen(journey.zlaunch("run", "--idle", *options, script, "0", env=env).out)

    assert run("--num-gpus", "1") == ["3"]
    assert run("--num-gpus", "1", visible=f"{gpus.uuids[2]},{gpus.uuids[3]}") == [gpus.uuids[3]]
    done = journey.zlaunch("run", "--idle", "--num-gpus", "2", script, "0")
    assert (done.code, done.out) == (2, "")
    assert "2 of GPUs 0-3 are wanted, 1 idle: GPU 0 is in use by pid " in done.err
    assert "GPU 1 is in use, 1.0 GiB; GPU 2 is busy (60 %)" in done.err
    gpus.used(gpus.uuids[1], memory=100 << 20)  # what a display takes
    assert run("--num-gpus", "2") == ["1,3"]
    assert run("--gpus", "3,1") == ["3,1"]
    assert run("--exclude", "localhost:1,0,2") == ["3"]
    assert run("--num-gpus", "1", "--include", "localhost:0,1") == ["1"]
    holder = holding(journey, "--idle", "--num-gpus", "1", "--name", "holder")
    assert run("--num-gpus", "1") == ["3"]
    status = json.loads(journey.zlaunch("status", "holder", "--json").out)
    assert [rank["device"] for rank in status["ranks"]] == ["GPU 1"]  # which it was given
    go(journey)
    assert holder.end().code == 0
    done = journey.zlaunch("run", "--idle", "--num-gpus", "9", script, "0")
    assert done.code == 2
    assert "--num-gpus 9 asks for more than there are" in done.err


def test_idle_without_a_number_takes_all_that_are_and_at_least_one(
    journey: Journey, gpus: Gpus
) -> None:
    script = journey.script(JOB)
    gpus.used(gpus.uuids[1], memory=20 * GIB)
    holder = holding(journey, "--gpus", "0")
    done = journey.zlaunch("run", "--idle", script, "0")
    assert done.code == 0, done.err
    assert seen(done.out) == ["2,3"]
    assert "2 ranks on 2 of GPUs 0-3 that nobody uses" in done.err
    assert seen(journey.zlaunch("run", "--idle", "--gpus", "3,1", script, "0").out) == ["3"]
    both = journey.zlaunch("run", "--idle", "--gpus", "3,1", "--num-gpus", "2", script, "0")
    assert both.code == 2
    gpus.used(gpus.uuids[2], percent=50)
    gpus.used(gpus.uuids[3], percent=50)
    done = journey.zlaunch("run", "--idle", script, "0")
    assert (done.code, done.out) == (2, "")
    assert "1 of GPUs 0-3 is wanted, 0 idle: GPU 0 is held by run " in done.err
    waits = journey.start("run", "--idle", "--wait", script, "0")
    waits.until("waiting for GPUs: 1 of GPUs 0-3 is wanted, 0 idle")
    go(journey)
    assert holder.end().code == 0
    ended = waits.end()
    assert (ended.code, seen(ended.out)) == (0, ["0"])


def test_idle_without_a_driver_that_tells(journey: Journey) -> None:
    shim = journey.program("#!/bin/sh\necho '0, GPU-aa, Fake GPU, 81559, 9.0'\n", "b/nvidia-smi")
    path = f"{shim.parent}:{journey.env['PATH']}"
    done = journey.zlaunch("run", "--idle", journey.script(JOB), "0", env={"PATH": path})
    assert (done.code, done.out) == (2, "")
    assert "cannot be told which GPUs are idle: there is no NVML to ask" in done.err


def test_parts_of_a_gpu(journey: Journey, gpus: Gpus) -> None:
    gpus.with_mig()
    part = holding(journey, "--gpus", gpus.migs[0])
    script = journey.script(JOB)
    assert seen(journey.zlaunch("run", "--gpus", gpus.migs[1], script, "0").out) == [gpus.migs[1]]
    for other in (gpus.migs[0], "3", gpus.uuids[3]):
        done = journey.zlaunch("run", "--gpus", other, script, "0")
        assert done.code == 2, other
        assert "is held by run" in done.err
    gpus.used(gpus.migs[1], memory=2 * GIB, pid=os.getpid())
    both = {"CUDA_VISIBLE_DEVICES": ",".join(gpus.migs)}
    done = journey.zlaunch("run", "--idle", "--num-gpus", "1", script, "0", env=both)
    assert done.code == 2
    assert f"{gpus.migs[1]} is in use by pid {os.getpid()} " in done.err
    go(journey)
    assert part.end().code == 0
    done = journey.zlaunch("run", "--idle", "--num-gpus", "1", script, "0", env=both)
    assert seen(done.out) == [gpus.migs[0]]


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_workers_have_no_part_in_a_lease(journey: Journey, gpus: Gpus, start: str) -> None:
    code = "import os\nfor fd in os.scandir('/proc/self/fd'):\n"
    code += "    print(os.readlink(fd) if os.path.islink(fd.path) else '')\n"
    warm = ("--start", "warm", "--preload", "decimal") if start == "warm" else ()
    done = journey.zlaunch("run", "--num-gpus", "2", *warm, journey.script(code, "fds.py"))
    assert done.code == 0, done.err
    assert "cold" not in done.err
    assert "pipe:" in done.out
    assert journey.env["ZLAUNCH_LEASE_DIR"] not in done.out


def test_what_a_run_starts_shares_its_gpus(journey: Journey, gpus: Gpus) -> None:
    inner = f"#!/bin/sh\nexec {sys.executable} -m zlaunch run --num-gpus 1 job.py 0\n"
    journey.program(inner, "outer.sh")
    journey.script(JOB)
    done = journey.zlaunch("run", "--num-gpus", "1", "--no-python", "./outer.sh")
    assert done.code == 0, done.err
    assert "| on 0" in done.out


def test_an_agent_that_is_killed_holds_nothing(journey: Journey, gpus: Gpus) -> None:
    live = holding(journey)
    (agent,) = children_of(live.pid)
    os.kill(agent, signal.SIGKILL)
    assert live.end().code == 125
    assert journey.zlaunch("run", "job.py", "0").code == 0


def test_where_there_can_be_no_leases_runs_go_on(journey: Journey, gpus: Gpus) -> None:
    (journey.folder / "file").touch()
    journey.env["ZLAUNCH_LEASE_DIR"] = str(journey.folder / "file")
    done = journey.zlaunch("run", "--num-gpus", "1", journey.script(JOB), "0")
    assert (done.code, seen(done.out)) == (0, ["0"])
    assert done.err.count("GPUs are not protected from other launches") == 1
    assert "Not a directory" in done.err
    done = journey.zlaunch("run", "--lease-dir", "here", "job.py", "0")
    assert done.code == 2
    assert "--lease-dir here: an absolute path is needed" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--wait --cpu 1", "--cpu and --wait contradict"),
        ("--device cpu --idle", "--device cpu and --idle contradict"),
        ("--share-gpus --idle", "--share-gpus and --idle contradict"),
        ("--wait=soon", "--wait 'soon' is no duration"),
    ],
)
def test_options_that_cannot_be(journey: Journey, options: str, words: str) -> None:
    done = journey.zlaunch("run", *options.split(), journey.script(JOB), "0")
    assert done.code == 2
    assert words in done.err
