"""The hosts of these tests are what they claim to be, in health and in every fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import pytest
from hosts import Host, Lab, missing
from namespaces import BOUND, NAMED, state

SOON = ("-o", "ConnectTimeout=1")
GREETING = """
import socket, sys
with socket.create_connection((sys.argv[1], 22), timeout=5) as link:
    print(link.recv(256).decode())
"""


def log_in(lab: Lab, host: Host, address: str | None = None) -> str:
    """By paramiko, host keys checked strictly; what `hostname` says there."""
    with paramiko.SSHClient() as client:
        client.load_host_keys(str(lab.client.known_hosts))
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        client.connect(
            address or host.address,
            port=host.port,
            username="root",
            key_filename=str(lab.client.identity),
            allow_agent=False,
            look_for_keys=False,
            timeout=2,
            banner_timeout=1,
        )
        _, stdout, _ = client.exec_command("hostname", timeout=BOUND)
        return stdout.read().decode().strip()


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def works(lab: Lab, host: Host) -> bool:
    return lab.run(host, "hostname").stdout == f"{host.name}\n"


def test_openssh_reaches_each_by_its_alias(lab8: Lab) -> None:
    for host in lab8.hosts:
        done = lab8.run(host, "hostname; hostname -I")
        assert done.returncode == 0, done.stderr + host.log
        assert done.stdout.split() == [host.name, host.address, host.address6]


def test_openssh_reaches_by_address_of_both_families(lab2: Lab) -> None:
    env = lab2.client.environment()
    for host in lab2.hosts:
        for address in (host.address, host.address6):
            done = subprocess.run(
                ["ssh", "-o", "BatchMode=yes", address, "hostname"],
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=BOUND,
                check=False,
            )
            assert done.stdout == f"{host.name}\n", done.stderr


def test_openssh_goes_through_one_to_the_other(lab2: Lab) -> None:
    first, second = lab2.hosts
    done = lab2.run(second, "echo $SSH_CLIENT", options=("-J", first.name))
    assert done.stdout.startswith(f"{first.address} "), done.stderr


def test_paramiko_reaches_with_strict_host_keys(lab2: Lab) -> None:
    for host in lab2.hosts:
        assert log_in(lab2, host) == log_in(lab2, host, host.address6) == host.name


def test_peers_reach_each_other_by_address_and_by_name(lab2: Lab) -> None:
    for host, peer in (lab2.hosts, lab2.hosts[::-1]):
        for target in (peer.address, peer.address6, peer.name, "localhost"):
            command = host.command(sys.executable, "-c", GREETING, target)
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=BOUND, check=False
            )
            assert done.stdout.startswith("SSH-2.0"), done.stderr


def test_no_variable_is_taken_from_the_client_and_the_host_sets_its_own(lab2: Lab) -> None:
    host = lab2.hosts[0]
    host.configure("SetEnv ON_HOST=1")
    (host.home / ".bashrc").write_text("FROM_HOME=2\n")
    sent = {**os.environ, "SENT": "3"}
    shown = 'echo "$ON_HOST-$FROM_HOME-$SENT-$HOME"'
    done = lab2.run(host, shown, options=("-o", "SendEnv=SENT"), env=sent)
    assert done.stdout == f"1-2--{host.home}\n", done.stderr
    (host.home / ".bashrc").unlink()
    host.mend()
    assert lab2.run(host, shown).stdout == f"---{host.home}\n"


def test_cut_and_mended(lab2: Lab) -> None:
    host, other = lab2.hosts
    host.cut()
    done = lab2.run(host, "true", options=SOON)
    assert done.returncode == 255, done
    assert works(lab2, other)
    host.mend()
    assert works(lab2, host)


def test_cut_silently_leaves_a_connect_waiting(lab2: Lab) -> None:
    host = lab2.hosts[0]
    host.cut(silently=True)
    done = lab2.run(host, "true", options=("-o", "ConnectTimeout=4"))
    assert "Connection timed out" in done.stderr  # 3 s is when "No route to host" comes else
    host.mend()
    assert works(lab2, host)


def test_a_stopped_sshd_refuses(lab2: Lab) -> None:
    host = lab2.hosts[0]
    host.stop_sshd()
    assert "Connection refused" in lab2.run(host, "true").stderr
    with pytest.raises(paramiko.ssh_exception.NoValidConnectionsError):
        log_in(lab2, host)
    host.mend()
    assert works(lab2, host)


def test_a_changed_host_key_is_refused(lab2: Lab) -> None:
    host = lab2.hosts[0]
    host.change_host_key()
    assert "IDENTIFICATION HAS CHANGED" in lab2.run(host, "true").stderr
    with pytest.raises(paramiko.BadHostKeyException):
        log_in(lab2, host)
    host.mend()
    assert works(lab2, host)


def test_a_refused_key(lab2: Lab) -> None:
    host = lab2.hosts[0]
    host.refuse_key()
    assert "Permission denied (publickey)" in lab2.run(host, "true").stderr
    with pytest.raises(paramiko.AuthenticationException):
        log_in(lab2, host)
    host.mend()
    assert works(lab2, host)


def test_a_hanging_sshd_accepts_and_says_nothing(lab2: Lab) -> None:
    host = lab2.hosts[0]
    host.hang()
    done = lab2.run(host, "true", options=SOON)
    assert "timed out during banner exchange" in done.stderr
    with pytest.raises(paramiko.SSHException, match="banner"):
        log_in(lab2, host)
    host.mend()
    assert works(lab2, host)


def test_processes_are_seen_frozen_and_orphaned(lab2: Lab) -> None:
    host, other = lab2.hosts
    marker = "LAB_TEST_MARKER=1"
    sleeper = "import time; print('up', flush=True); time.sleep(60)"
    command = lab2.ssh(host, f'{marker} exec {sys.executable} -c "{sleeper}"')
    with started(command) as ssh:
        assert ssh.stdout is not None
        assert ssh.stdout.readline() == b"up\n"
        (pid,) = host.processes(marker)
        assert lab2.processes(marker) == {host.name: [pid]}
        assert other.processes(marker) == []

        host.freeze()
        assert state(pid) == "T"
        host.mend()
        assert state(pid) in "RS"

        assert host.kill_sshd_sessions() >= 1
        assert ssh.wait(timeout=BOUND) == 255
        assert host.processes(marker) == [pid]
        assert works(lab2, host)
        assert host.namespace.signal([pid, os.getpid()], signal.SIGKILL) == 1


def test_two_labs_at_once_are_apart_and_leave_nothing(lab2: Lab, hosts_here: None) -> None:
    with Lab(1, port=2222) as lab:
        host = lab.hosts[0]
        assert lab.network != lab2.network
        assert works(lab, host)
        assert log_in(lab, host) == host.name
        names = [lab.bridge.name, host.namespace.name]
        assert all((NAMED / name).exists() for name in names)
        assert lab.run(host, "sleep 60 </dev/null >/dev/null 2>&1 &").returncode == 0
        pids = host.namespace.pids()
        assert len(pids) >= 2
    gone(lab, names, pids)


def test_a_lab_that_fails_to_start_leaves_nothing(
    hosts_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(2)
    pids: list[int] = []

    def fail(port: str) -> None:
        if port == "h1":
            pids.extend(lab.hosts[0].namespace.pids())
            raise OSError("no more cable")
        Lab.plug(lab, port)

    monkeypatch.setattr(lab, "plug", fail)
    with pytest.raises(OSError, match="no more cable"), lab:
        pass
    assert pids
    gone(lab, [lab.bridge.name, *(host.namespace.name for host in lab.hosts)], pids)


def test_why_there_can_be_no_hosts_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing() == "hosts as network namespaces need root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("hosts.program", lambda name: None if name in ("ip", "sshd") else name)
    assert missing() == "hosts as network namespaces need the packages iproute2, openssh-server"


def gone(lab: Lab, namespaces: list[str], pids: list[int]) -> None:
    assert not any((NAMED / name).exists() for name in namespaces)
    assert not Path("/sys/class/net", lab.interface).exists()
    assert not lab.folder.exists()
    assert not [pid for pid in pids if Path(f"/proc/{pid}/ns/net").exists()]  # a zombie has none
