"""Who waits for GPUs, and in which order; and who else may: other users, nodes that join."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_nvml import Gpus
from journeys import Journey, Live, children_of, eventually, without_nvml
from test_leases import GIB, JOB, go, holding
from test_selection_journeys import machine


def waiting(journey: Journey) -> list[str]:
    """The ids of the runs that wait, first come first."""
    listed = json.loads(journey.zlaunch("ps", "--json").out)
    return [run["id"] for run in reversed(listed) if run["waits_for"]]


def test_first_come_first_served(journey: Journey, gpus: Gpus) -> None:
    """One that needs all does not starve: who comes later waits behind it, free GPUs or not."""
    first = holding(journey, "--num-gpus", "1")
    script = journey.script(JOB)
    wide = journey.start("run", "--wait", "--name", "wide", script, "0.2")
    wide.until("waiting for GPUs: GPU 0 is held by run ")
    narrow = journey.start("run", "--wait", "1h", "--gpus", "3", "--name", "narrow", script, "0")
    narrow.until("waiting for GPUs: before us waits run ")
    assert "GPU 3 is free" not in narrow.text
    refused = journey.zlaunch("run", "--gpus", "2", script, "0")
    assert refused.code == 2  # nor does one that does not wait overtake
    assert "before us waits run" in refused.err
    shown = journey.zlaunch("ps").out
    assert "narrow  waiting" in shown
    assert "wide    waiting" in shown
    queue = shown.partition("first come first served:")[2].splitlines()[1:]
    assert [line.strip()[:2] for line in queue] == ["1.", "2."]
    assert "GPU 0 is held by run" in queue[0]
    assert "waits for GPUs" in journey.zlaunch("status", "wide").out
    go(journey)
    assert first.end().code == 0
    assert wide.end().code == 0
    assert narrow.end().code == 0
    had = [line.split() for line in (journey.folder / "had").read_text().splitlines()]
    assert [gpu for gpu, _, _ in had] == ["0", "0,1,2,3", "3"]
    assert float(had[1][2]) < float(had[2][1])
    assert not waiting(journey)
    assert not list(Path(journey.env["ZLAUNCH_LEASE_DIR"]).glob("ticket-*"))


def test_ways_out_of_the_queue(journey: Journey, gpus: Gpus) -> None:
    first = holding(journey)
    script = journey.script(JOB)
    limited = journey.zlaunch("run", "--wait=0.3s", script, "0")
    assert (limited.code, limited.out) == (124, "")
    assert "were not free within 0.3 s (--wait): GPUs 0-3 are held by run" in limited.err
    slip = journey.zlaunch("run", "--wait", "2hours", script, "0")
    assert (slip.code, "--wait may be given 90s, 15m, 2h or 1d" in slip.err) == (2, True)
    stopped = [journey.start("run", "--wait", "--name", f"w{i}", script, "0") for i in range(3)]
    for one in stopped:
        one.until("waiting for GPUs")
    stopped[0].send(signal.SIGINT)
    assert stopped[0].end().code == 130
    asked = journey.zlaunch("stop", "w1")
    assert (asked.code, asked.err) == (0, "")  # there are no ranks to stop
    assert "not started" in journey.zlaunch("status", "w1").out
    assert stopped[1].end().code == 143
    stopped[2].send(signal.SIGKILL)
    assert stopped[2].end().code == -9
    last = journey.start("run", "--wait", script, "0")  # nobody that is gone is before it
    last.until("waiting for GPUs")
    go(journey)
    assert first.end().code == 0
    assert last.end().code == 0
    assert "lost" in journey.zlaunch("status", "w2").out


def test_a_detached_run_waits_in_the_background(journey: Journey, gpus: Gpus) -> None:
    first = holding(journey)
    refused = journey.zlaunch("run", "--detach", "job.py", "0")
    assert (refused.code, refused.out) == (2, "")
    assert "GPUs 0-3 are held by run " in refused.err
    done = journey.zlaunch("run", "--detach", "--wait", "--name", "later", "job.py", "0")
    assert done.code == 0
    run_id = done.out.strip()
    assert "waiting for GPUs: GPUs 0-3 are held by run" in done.err
    assert waiting(journey) == [run_id]
    go(journey)
    assert first.end().code == 0
    assert journey.zlaunch("wait", "later").code == 0
    assert "taken after" in (journey.latest / "console.log").read_text()


def test_a_launcher_that_is_killed_holds_nothing(journey: Journey, gpus: Gpus) -> None:
    script = journey.script(JOB)
    options = ("--detach", "--num-gpus", "2", "--grace", "600", "--name", "mine")
    assert journey.zlaunch("run", *options, script, "go").code == 0
    pid = journey.record()["launcher_pid"]
    (agent,) = children_of(pid)
    waiter = journey.start("run", "--wait", "--num-gpus", "1", script, "0")
    waiter.until("waiting for GPUs")
    os.kill(agent, signal.SIGSTOP)  # its workers live, so the GPUs are not free
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: "mine  lost" in journey.zlaunch("ps").out)
    assert journey.zlaunch("run", "--num-gpus", "1", script, "0").code == 2
    os.kill(agent, signal.SIGCONT)
    assert waiter.end().code == 0
    assert journey.zlaunch("run", "--num-gpus", "2", script, "0").code == 0
    journey.assert_gone()


def test_nodes_that_join_take_their_own(journey: Journey, gpus: Gpus, tmp_path: Path) -> None:
    others = Gpus(tmp_path / "others")
    gpus.used(gpus.uuids[0], memory=2 * GIB)
    others.used(others.uuids[1], memory=2 * GIB)
    token = journey.folder / "token"
    token.write_text("0" * 64)
    token.chmod(0o600)
    script = journey.script(JOB)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    join = ("--nnodes", "2", "--rendezvous", f"127.0.0.1:{port}", "--token-file", "token")

    def node(rank: int, *options: str, until: str = "0") -> Live:
        env = {"FAKE_NVML": str((gpus, others)[rank].folder)}
        return journey.start(
            "join", *join, "--node-rank", str(rank), *options, script, until, env=env
        )

    idle = ("--idle", "--num-gpus", "2")
    nodes = [node(0, *idle), node(1, *idle)]
    ends = [one.end() for one in nodes]
    assert [end.code for end in ends] == [0, 0], ends
    assert (
        sorted(line.split()[-1] for line in ends[0].out.splitlines()) == ["0,2"] * 2 + ["1,2"] * 2
    )
    holder = journey.start(
        "run", "--gpus", "3", script, "go", env={"FAKE_NVML": str(others.folder)}
    )
    holder.until("| on 3")
    nodes = [node(0, "--gpus", "3"), node(1, "--gpus", "3")]
    ends = [one.end() for one in nodes]
    assert [end.code for end in ends] == [2, 2], ends
    assert all("GPU 3 is held by run " in end.err for end in ends)
    go(journey)
    assert holder.end().code == 0


NOBODY = 65534
# An interpreter that starts may still be one that cannot be started again without root's rights.
REACHED = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import zlaunch'], check=True)"
)


def zlaunch_of_another(env: dict[str, str]) -> list[str]:
    """The command by which nobody starts zlaunch; this installation may be root's alone."""
    setpriv = shutil.which("setpriv")
    assert setpriv, "util-linux is needed"
    other = [setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        command = [*other, python, "-c", REACHED]
        if not subprocess.run(
            command, cwd="/", env=env, capture_output=True, check=False
        ).returncode:
            return [*other, python, "-m", "zlaunch"]
    pytest.skip("another user can read neither this interpreter nor the system's")


@pytest.fixture
def in_the_open() -> Iterator[Journey]:
    """A journey where other users can go too, which pytest's own folders are closed to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        folder = Path(path)
        folder.chmod(0o755)
        journey = Journey(folder)
        journey.folder.chmod(0o777)
        machine(journey, 4)
        try:
            yield journey
            journey.assert_gone()
        finally:
            journey.close()


@without_nvml
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user as well")
def test_users_that_share_a_directory(in_the_open: Journey) -> None:
    journey = in_the_open
    shared, theirs = journey.folder.parent / "shared", journey.folder.parent / "theirs"
    for folder in (shared, theirs):
        folder.mkdir()
    shared.chmod(0o1777)
    os.chown(theirs, NOBODY, NOBODY)
    journey.env["ZLAUNCH_LEASE_DIR"] = str(shared)
    env = {"ZLAUNCH_HOME": str(theirs / "home"), "HOME": str(theirs)}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = zlaunch_of_another(journey.env | env)
    script = journey.script(JOB)

    def as_other(*options: str) -> Live:
        return journey.start("run", *options, script, "0", command=command, env=env)

    done = as_other("--num-gpus", "4").end()  # now the files are theirs
    assert done.code == 0, done.err
    (journey.folder / "had").chmod(0o666)
    first = holding(journey, "--num-gpus", "2")
    done = as_other("--num-gpus", "1").end()
    assert done.code == 2
    assert "GPU 0 is held by run " in done.err
    assert " of root, pid " in done.err
    live = as_other("--num-gpus", "1", "--wait")
    live.until("waiting for GPUs")
    queue = journey.zlaunch("ps").out.partition("first come first served:")[2]
    assert " of nobody, pid " in queue
    go(journey)
    assert first.end().code == 0
    assert live.end().code == 0
    assert eventually(lambda: not list(shared.glob("ticket-*")), 5)
