"""The last sweep: who has exactly this mark in its environment, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zlaunch.system.marked import end_marked, kill_exactly

RUN = f"test-{os.getpid()}"
MARK = (f"ZLAUNCH_RUN_ID={RUN}", "ZLAUNCH_NODE_RANK=1")
ENV = {"ZLAUNCH_RUN_ID": RUN, "ZLAUNCH_NODE_RANK": "1"}
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


class Sleepers:
    def __init__(self) -> None:
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self, code: str = SLEEP, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],
            env=env, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.all.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    sleepers = Sleepers()
    yield sleepers
    for process in sleepers.all:
        process.kill()
        process.communicate()


def end() -> list[int]:
    return end_marked(MARK, time.monotonic() + 5)


def test_those_with_the_mark_and_nobody_else(sleepers: Sleepers) -> None:
    marked = [sleepers.start(**ENV), sleepers.start(A="x" * 100_000, **ENV, Z="1")]
    others = [
        sleepers.start(),
        sleepers.start(**{**ENV, "ZLAUNCH_RUN_ID": f"{RUN}0"}),
        sleepers.start(**{**ENV, "ZLAUNCH_NODE_RANK": "10"}),
        sleepers.start(ZLAUNCH_RUN_ID=RUN),
        sleepers.start(NOTE="\n".join(MARK)),
        sleepers.start(X=MARK[0], Y=MARK[1]),
        sleepers.start(NOT_ZLAUNCH_RUN_ID=RUN, ZLAUNCH_NODE_RANK="1"),
    ]
    assert end() == []
    assert [process.wait(5) for process in marked] == [-9, -9]
    assert [process.poll() for process in others] == [None] * len(others)


def test_itself_and_its_ancestors_are_spared(sleepers: Sleepers) -> None:
    code = f"""
import os, sys, time
sys.path.append({str(Path(__file__).parents[2])!r})
from zlaunch.system.marked import end_marked
if (pid := os.fork()):
    os.waitpid(pid, 0)
else:
    assert end_marked({MARK!r}, time.monotonic() + 5) == []
    print("up", flush=True)
    time.sleep(600)
"""
    parent = sleepers.start(code, **ENV)
    assert parent.poll() is None
    assert end() == []
    assert parent.wait(5) == -9


def test_one_that_has_become_another_is_not_signalled(sleepers: Sleepers) -> None:
    process = sleepers.start(**ENV)
    kill_exactly(process.pid, lambda _: False)
    time.sleep(0.1)
    assert process.poll() is None


def test_without_a_mark_nothing_is_done(sleepers: Sleepers) -> None:
    process = sleepers.start()
    assert end_marked((), time.monotonic() + 5) == []
    assert process.poll() is None
