"""Agents, hosts and links that are lost: noticed within the heartbeat, and nothing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Host, Lab
from journey_many import Many, many
from namespaces import BOUND

HEARTBEAT = 2.0
LOADED = 5.0  # seconds that a loaded machine may take longer
# A rank that ignores TERM, with children: in its group, in a session of its own, re-parented.
CODE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"]
subprocess.Popen(sleep)
null = subprocess.DEVNULL
subprocess.Popen(sleep, start_new_session=True, stdout=null, stderr=null)
if os.fork() == 0:
    subprocess.Popen(sleep, start_new_session=True)
    os._exit(0)
print("up", flush=True)
time.sleep(600)
"""


def agents(host: Host) -> list[int]:
    """The agent's own process on a host: the one below its keeper."""
    found = []
    for pid in host.namespace.pids():
        line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"-I" in line and b"-S" in line:
            found.append(pid)
    return sorted(found)


def kill_agent(host: Host) -> None:
    os.kill(agents(host)[-1], signal.SIGKILL)


def stop_agent(host: Host) -> None:
    os.kill(agents(host)[-1], signal.SIGSTOP)


def kill_keeper(host: Host) -> None:
    os.kill(agents(host)[0], signal.SIGKILL)


def kill_sshd(host: Host) -> None:
    assert host.kill_sshd_sessions()


def cut(host: Host) -> None:
    host.cut()


def cut_silently(host: Host) -> None:
    host.cut(silently=True)


FAULTS: tuple[Callable[[Host], None], ...] = (
    kill_agent,
    stop_agent,
    kill_keeper,
    kill_sshd,
    cut,
    cut_silently,
)


def up(launches: Many) -> subprocess.Popen[str]:
    """Start on all hosts, wait until every rank and its children live, return the launcher."""
    options = ("--grace", "1", "--heartbeat", f"{HEARTBEAT:g}")
    process = launches.start(launches.all(), CODE, options=options)
    assert process.stdout is not None
    for _ in launches.lab.hosts:
        assert process.stdout.readline().endswith("| up\n")
    return process


@pytest.mark.parametrize(
    ("ssh", "fault"),
    [*(("paramiko", fault) for fault in FAULTS), ("openssh", stop_agent), ("openssh", cut)],
)
def test_fault(lab2: Lab, tmp_path: Path, fault: Callable[[Host], None], ssh: str) -> None:
    host = lab2.hosts[1]
    with many(lab2, tmp_path, ssh) as launches:
        process = up(launches)
        begun = time.monotonic()
        fault(host)
        _, err = process.communicate(timeout=BOUND)
        took = time.monotonic() - begun
        assert process.returncode in {125, 143}, err
        assert host.name in err
        assert "Traceback" not in err
        assert took < HEARTBEAT + 2 + 1 + LOADED, err  # the grace, and a loaded machine
        launches.nothing_left(HEARTBEAT + 2 + 1)
        assert not agents(host)


def test_a_frozen_host(lab2: Lab, tmp_path: Path) -> None:
    """What lives there cannot act; once it is awake again it ends by itself."""
    host = lab2.hosts[1]
    with many(lab2, tmp_path, "paramiko") as launches:
        process = up(launches)
        begun = time.monotonic()
        host.freeze()
        _, err = process.communicate(timeout=BOUND)
        assert time.monotonic() - begun < HEARTBEAT + 2 + 1 + LOADED, err
        assert f"{host.name} was not heard of for {HEARTBEAT:g} s" in err
        assert list(lab2.processes(launches.marker)) in ([host.name], [])
        host.mend()
        launches.nothing_left(HEARTBEAT + 2 + 1)


@pytest.mark.parametrize("ssh", ["paramiko", "openssh"])
def test_the_launcher_is_killed(lab8: Lab, tmp_path: Path, ssh: str) -> None:
    with many(lab8, tmp_path, ssh) as launches:
        process = up(launches)
        process.kill()
        process.communicate(timeout=BOUND)
        launches.nothing_left(3.0)


def test_a_stopped_launcher(lab2: Lab, tmp_path: Path) -> None:
    """The hosts hear nothing of it either: the heartbeat goes both ways."""
    with many(lab2, tmp_path, "paramiko") as launches:
        process = up(launches)
        process.send_signal(signal.SIGSTOP)
        try:
            launches.nothing_left(HEARTBEAT + 2 + 1)
        finally:
            process.send_signal(signal.SIGCONT)
        process.communicate(timeout=BOUND)
        assert process.returncode == 125
