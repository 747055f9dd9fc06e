"""Leases over hosts: their agents take them, all or none. Each host has four GPUs that are none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_nvml import Gpus, nvml_library
from hosts import Lab
from journey_many import LONG, Many, many

__all__ = ["nvml_library"]

GIB = 1 << 30
JOB = """
import os, pathlib, sys, time
print("on", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
while len(sys.argv) > 1 and not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""
BOTH = "h0:4,h1:4"


class Launch:
    """One that is under way."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None and process.stderr is not None
        self.process, self.out, self.err = process, process.stdout, process.stderr
        self.said = ""
        self.ran: list[str] = []

    def until(self, words: str) -> None:
        """Wait until it has said so."""
        while words not in self.said:
            line = self.err.readline()
            assert line, f"{words!r} was not said: {self.said}"
            self.said += line

    def end(self) -> tuple[int, list[str]]:
        """The exit code, and on which GPUs each rank ran."""
        if not self.out.closed:
            out, err = self.process.communicate(timeout=LONG)
            self.said += err
            self.ran = sorted(out.splitlines())
        return self.process.returncode, self.ran


class Machines:
    """The hosts h0 and h1 with their GPUs, and launches on them."""

    def __init__(self, launches: Many, library: Path) -> None:
        self.launches, self.folder = launches, launches.folder
        self.gpus = [Gpus(self.folder / host.name) for host in launches.lab.hosts]
        setup = f"export LD_LIBRARY_PATH={library} FAKE_NVML={self.folder}/$(hostname)"
        self._command = [sys.executable, "-m", "zlaunch", "multinode", "--setup", setup]
        self._started: list[Launch] = []
        (self.folder / "job.py").write_text(JOB)

    def start(self, hosts: str, *options: str, until: str = "") -> Launch:
        command = [*self._command, "--hosts", hosts, *options, "job.py", *filter(None, [until])]
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.launches.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._started.append(Launch(process))
        return self._started[-1]

    def close(self) -> None:
        """End what a failed test has left."""
        for launch in self._started:
            launch.process.kill()
            launch.end()

    def go(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture
def machines(lab2: Lab, tmp_path: Path, nvml_library: Path) -> Iterator[Machines]:
    with many(lab2, tmp_path, "paramiko") as launches:
        found = Machines(launches, nvml_library)
        yield found
        found.close()


def test_all_or_none_of_the_hosts(machines: Machines) -> None:
    first = machines.start("h1:2", until="go")
    assert "on 0,1" in first.out.readline()
    second = machines.start(BOTH, "--num-gpus", "1")
    assert second.end() == (2, [])
    assert "h1: GPU 0 is held by run " in second.said
    assert "h0: GPU" not in second.said
    third = machines.start("h0:1,h1:1", "--wait")
    third.until("waiting for GPUs: h1: GPU 0 is held by run ")
    # While it waits for h1 it holds nothing on h0; but nobody who comes later overtakes it there.
    fourth = machines.start("h0:1", "--wait")
    fourth.until("waiting for GPUs: before us waits run ")
    ps = [sys.executable, "-m", "zlaunch", "ps"]
    shown = subprocess.run(
        ps, env=machines.launches.env, text=True, capture_output=True, check=True
    ).stdout
    assert shown.count("  waiting  ") == 2
    assert "GPU 0 is held by run " in shown.partition("first come first served:")[2]
    assert machines.start("h0:4", "--include", "h0:1").end() == (0, ["0 | on 1"])
    machines.go()
    assert first.end()[0] == 0
    assert third.end() == (0, ["h0:0 | on 0", "h1:1 | on 0"])
    assert "taken after" in third.said
    assert fourth.end()[0] == 0


def test_idle_ones_of_each_host(machines: Machines) -> None:
    h0, h1 = machines.gpus
    h0.used(h0.uuids[0], memory=20 * GIB)
    h1.used(h1.uuids[1], percent=90)
    code, ran = machines.start(BOTH, "--idle", "--num-gpus", "2").end()
    assert code == 0
    assert ran == ["h0:0 | on 1,2", "h0:1 | on 1,2", "h1:2 | on 0,2", "h1:3 | on 0,2"]
    (record,) = (machines.folder / "runs" / "runs").glob("*/run.json")
    plan = json.loads(record.read_text())["plan"]
    assert [node["slots"] for node in plan["nodes"]] == [[1, 2], [0, 2]]
    short = machines.start(BOTH, "--idle", "--num-gpus", "4")
    assert short.end() == (2, [])
    assert "h0: GPU 0 is in use, 20.0 GiB" in short.said
    assert "h1: GPU 1 is busy (90 %)" in short.said
    waits = machines.start(BOTH, "--idle", "--num-gpus", "4", "--wait")
    waits.until("waiting for GPUs")
    h0.used(h0.uuids[0])
    h1.used(h1.uuids[1])
    code, ran = waits.end()
    assert (code, len(ran)) == (0, 8), waits.said


def test_idle_ones_without_a_number_are_all_that_are(machines: Machines) -> None:
    h0, h1 = machines.gpus
    h0.used(h0.uuids[0], memory=20 * GIB)
    holder = machines.start("h1:1", until="go")
    assert "on 0" in holder.out.readline()
    code, ran = machines.start(BOTH, "--idle").end()
    assert code == 0
    assert sorted(ran) == sorted(
        [*(f"h0:{rank} | on 1,2,3" for rank in range(3))]
        + [f"h1:{rank} | on 1,2,3" for rank in range(3, 6)]
    )
    for uuid in h1.uuids[1:]:
        h1.used(uuid, percent=90)
    code, ran = machines.start(BOTH, "--idle").end()
    assert (code, ran) == (2, [])
    machines.go()
    assert holder.end()[0] == 0
    code, ran = machines.start(BOTH, "--idle").end()
    assert (code, len(ran)) == (0, 4)


def test_launches_over_the_same_hosts_do_not_wait_for_each_other(machines: Machines) -> None:
    """In whichever order they name the hosts."""
    orders = (BOTH, "h1:4,h0:4")
    launches = [machines.start(hosts, "--num-gpus", "3", "--wait") for hosts in orders * 2]
    for launch in launches:
        code, ran = launch.end()
        assert (code, len(ran)) == (0, 6), launch.said
