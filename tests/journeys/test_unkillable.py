"""Processes that no signal reaches: named, and nobody waits for them.

A task in a frozen control group (v1) does not die of KILL until it is thawed, like one that
waits for a disk or a driver that does not answer.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from journeys import Journey, children_of, eventually

FREEZER = Path("/sys/fs/cgroup/freezer")
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
# A child in a session of its own; it says who it is.
WITH_CHILD = """
import subprocess, time
null = subprocess.DEVNULL
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=null, stderr=null)
print("child", child.pid, "up", flush=True)
time.sleep(600)
"""


class Freezer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def freeze(self, *pids: int) -> None:
        for pid in pids:
            (self._folder / "cgroup.procs").write_text(str(pid))
        state = self._folder / "freezer.state"
        state.write_text("FROZEN")
        assert eventually(lambda: state.read_text() == "FROZEN\n", 10)

    def thaw(self) -> None:
        (self._folder / "freezer.state").write_text("THAWED")


@pytest.fixture
def freezer() -> Iterator[Freezer]:
    folder = FREEZER / f"zlaunch-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"nothing can be frozen here: {FREEZER} (cgroup v1): {error.strerror}")
    freezer = Freezer(folder)
    yield freezer
    freezer.thaw()
    assert eventually(lambda: not (folder / "cgroup.procs").read_text(), 10)
    assert eventually(lambda: _removed(folder), 10)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def test_a_rank(journey: Journey, freezer: Freezer) -> None:
    live = journey.start("run", "--cpu", "3", "--grace", "0.5", journey.script(SLEEP))
    live.until("| up", count=3)
    [agent] = children_of(live.pid)
    ranks = children_of(agent)
    freezer.freeze(ranks[1])
    began = time.monotonic()
    os.kill(ranks[0], signal.SIGSEGV)
    done = live.end(40)
    assert done.code == 139
    assert time.monotonic() - began < 0.5 + 4 + 5 + 5  # grace, KILL, and a loaded machine
    assert f"(pid {ranks[1]}, python" in done.err
    assert "does not die of KILL: state D" in done.err
    assert "Traceback" not in done.err
    assert set(journey.alive()) == {ranks[1]}
    freezer.thaw()
    journey.assert_gone()


def test_a_second_interrupt_does_not_wait_for_it_either(journey: Journey, freezer: Freezer) -> None:
    live = journey.start("run", "--cpu", "2", "--grace", "500", journey.script(SLEEP))
    live.until("| up", count=2)
    freezer.freeze(*children_of(children_of(live.pid)[0]))
    live.send(signal.SIGINT)
    live.until("again to kill at once")
    time.sleep(0.5)
    live.send(signal.SIGINT)
    done = live.end(30)
    assert done.code == 130
    assert done.err.count("does not die of KILL") >= 2
    freezer.thaw()
    journey.assert_gone()


def test_a_child_of_a_rank(journey: Journey, freezer: Freezer) -> None:
    live = journey.start("run", "--cpu", "1", "--grace", "0.5", journey.script(WITH_CHILD))
    live.until(" up")
    child = int(live.text.partition("child ")[2].split()[0])
    freezer.freeze(child)
    live.send(signal.SIGTERM)
    done = live.end(30)
    assert done.code == 143
    assert f"a process that a rank started (pid {child}, sleep) does not die of KILL" in done.err
    freezer.thaw()
    journey.assert_gone()


def test_the_agent(journey: Journey, freezer: Freezer) -> None:
    """The launcher ends its ranks, and leaves it to its fate."""
    live = journey.start("run", "--cpu", "2", "--grace", "0", journey.script(SLEEP))
    live.until("| up", count=2)
    [agent] = children_of(live.pid)
    freezer.freeze(agent)
    live.send(signal.SIGTERM)
    live.until("again to kill at once")
    time.sleep(0.5)
    live.send(signal.SIGTERM)
    done = live.end(40)
    assert set(journey.alive()) == {agent}
    assert done.code == 143
    assert "ranks 0-1 could not be killed" in done.err
    assert "Traceback" not in done.err
    freezer.thaw()
    journey.assert_gone()
