"""A control group for a node's workers: nothing in it gets away, and it leaves none behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zlaunch.system import scope
from zlaunch.system.scope import Scope, end_scope, find_group, own_group

NAME = f"test-{os.getpid()}"
# Forks anew before it could be caught, in a session of its own and without an environment.
RESPAWNS = """
import os, time
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.0005)
"""
HYBRID = "30 24 0:26 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n"
UNIFIED = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
OTHERS = (
    "29 24 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n21 1 0:1 / /proc rw - proc p rw\n"
)


@pytest.fixture
def made() -> Iterator[Scope]:
    made = Scope.make(NAME)
    if made is None:
        pytest.skip("no control group can be made here: cgroup v2, and the right to, are needed")
    yield made
    made.empty(time.monotonic() + 5)
    made.close()


def folder() -> Path:
    return Path(f"{own_group()}/zlaunch-{NAME}")


def in_it(made: Scope, code: str) -> subprocess.Popen[bytes]:
    """Start Python there, as an agent does."""
    argv = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.Popen(argv, preexec_fn=lambda: made.admit(0), env={})  # noqa: PLW1509


def until_filled() -> None:
    end = time.monotonic() + 20
    while not (folder() / "cgroup.procs").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("kernel", ["new", "without cgroup.kill"])
def test_those_that_start_each_other_anew(
    made: Scope, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = RESPAWNS
    if kernel != "new":  # Linux before 5.14: one after the other, so not those that are faster
        code = "import time; time.sleep(600)"

        def refuse(path: str, data: bytes) -> None:
            raise FileNotFoundError(path)

        monkeypatch.setattr(scope, "_write", refuse)
    with in_it(made, code), in_it(made, code):
        until_filled()
        assert made.empty(time.monotonic() + 5) == []
        assert (folder() / "cgroup.procs").read_text() == ""


def test_it_is_gone_afterwards_with_what_was_made_in_it(made: Scope) -> None:
    (folder() / "inner" / "most").mkdir(parents=True)
    other = Scope.make(f"{NAME}-other")
    assert other is not None
    other.close()
    assert [path.name for path in folder().parent.glob(f"zlaunch-{NAME}*")] == [folder().name]
    assert (folder() / "inner").is_dir()  # of a living one nothing is taken
    end_scope(NAME, time.monotonic())
    assert not folder().exists()


def test_the_next_one_ends_what_a_killed_agent_left(made: Scope) -> None:
    code = f"""
import os, sys, time
sys.path.append({str(Path(__file__).parents[2])!r})
from zlaunch.system.scope import Scope
made = Scope.make({NAME + "-dead"!r})
if not os.fork():
    made.admit(0)
    os.execlp("sleep", "sleep", "600")
time.sleep(600)
"""
    left = folder().with_name(f"{folder().name}-dead")
    agent = subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    end = time.monotonic() + 20
    while not left.exists() or not (left / "cgroup.procs").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    [orphan] = map(int, (left / "cgroup.procs").read_text().split())
    handle = os.pidfd_open(orphan)
    assert Scope.make(NAME) is None  # that name is taken
    assert left.exists()  # its agent lives
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    while left.exists():  # at the latest once the killed one has left it
        assert time.monotonic() < end
        another = Scope.make(f"{NAME}-next")
        assert another is not None
        another.close()
    assert select.select([handle], [], [], 5)[0]
    os.close(handle)


def test_no_controller_is_turned_on(made: Scope) -> None:
    assert (folder() / "cgroup.controllers").read_text().strip() == ""
    assert (folder() / "cgroup.subtree_control").read_text().strip() == ""


@pytest.mark.parametrize(
    ("groups", "mounts", "found"),
    [
        ("0::/\n", OTHERS + HYBRID, "/sys/fs/cgroup/unified"),
        ("3:cpu:/a\n0::/user/1\n", HYBRID, "/sys/fs/cgroup/unified/user/1"),
        ("0::/user.slice/user@1.service/x\n", UNIFIED,
         "/sys/fs/cgroup/user.slice/user@1.service/x"),
        # bound into a container that has no namespace of its own
        ("0::/docker/7/job\n", UNIFIED.replace(" / /", " /docker/7 /"), "/sys/fs/cgroup/job"),
        ("0::/docker/70\n", UNIFIED.replace(" / /", " /docker/7 /"), None),
        ("0::/../other\n", UNIFIED, None),
        ("1:cpu:/\n", OTHERS, None),
        ("0::/\n", OTHERS, None),
        ("", "", None),
    ],
)  # fmt: skip
def test_where_a_process_is(groups: str, mounts: str, found: str | None) -> None:
    assert find_group(groups, mounts) == found
