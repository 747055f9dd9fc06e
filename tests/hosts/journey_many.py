"""Journeys to many hosts that go alike over paramiko and over the system's ssh.

Each takes a lab, an empty folder and the choice of --ssh, and asserts what is to be seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hosts import Lab

ARGS = ["a b", "", "$HOME", "`x` $(y)", "'", '"', "a\nb", "*", "ä€", "--x=1", "\\", "\udcff"]
HI = "print('hi')"
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
LONG = 180.0  # seconds, for what should take a few


@dataclass(frozen=True)
class Done:
    """How a launch ended."""

    code: int
    out: str
    err: str

    def fails_with(self, *words: str) -> None:
        """It could not reach a host, said why, and started nothing."""
        assert (self.code, self.out) == (125, ""), self
        assert all(word in self.err for word in words), self.err
        assert "Traceback" not in self.err, self.err


class Many:
    """Runs `zlaunch multinode` from a folder, as the lab's user."""

    def __init__(self, lab: Lab, folder: Path, ssh: str) -> None:
        self.lab, self.folder, self.ssh = lab, folder, ssh
        self.marker = f"zlaunch-test-{os.getpid()}-{folder.name}"
        self.env = {
            **lab.client.environment(),
            "ZLAUNCH_HOME": str(folder / "runs"),
            "ZLAUNCH_LEASE_DIR": str(folder / "leases"),
            "WANDB_MARK": self.marker,  # travels, so that what is left on a host can be found
        }

    def start(
        self, hosts: str, code: str, *args: str, options: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        (self.folder / "hosts").write_text(hosts)
        (self.folder / "job.py").write_text(code)
        line = [sys.executable, "-m", "zlaunch", "multinode", "--ssh", self.ssh]
        line += ["--hostfile", "hosts", "--device", "cpu", *options, "job.py", *args]
        return subprocess.Popen(
            line, cwd=self.folder, env=self.env, text=True, errors="surrogateescape",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, hosts: str, code: str, *args: str, options: tuple[str, ...] = ()) -> Done:
        process = self.start(hosts, code, *args, options=options)
        out, err = process.communicate(timeout=LONG)
        return Done(process.returncode, out, err)

    def all(self, slots: int = 1) -> str:
        return "".join(f"{host.name} slots={slots}\n" for host in self.lab.hosts)

    def nothing_left(self, seconds: float = 10.0) -> None:
        end = time.monotonic() + seconds
        while (left := self.lab.processes(self.marker)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left


@contextmanager
def many(lab: Lab, folder: Path, ssh: str) -> Iterator[Many]:
    launches = Many(lab, folder, ssh)
    yield launches
    launches.nothing_left()


@contextmanager
def changed(file: Path, text: str) -> Iterator[None]:
    """The file with this text in it, for a while."""
    before = file.read_text()
    file.write_text(text)
    try:
        yield
    finally:
        file.write_text(before)


def configured(lab: Lab, text: str) -> AbstractContextManager[None]:
    """The lab's ssh configuration with this in front."""
    return changed(lab.client.included, text + lab.client.included.read_text())


# The journeys


def a_refused_key(lab: Lab, folder: Path, ssh: str) -> None:
    lab.hosts[1].refuse_key()
    _fails(lab, folder, ssh, "it refuses our key")


def a_changed_host_key(lab: Lab, folder: Path, ssh: str) -> None:
    lab.hosts[1].change_host_key()
    _fails(lab, folder, ssh, "its host key has changed")


def a_changed_host_key_with_accept_new(lab: Lab, folder: Path, ssh: str) -> None:
    lab.hosts[1].change_host_key()
    before = lab.client.known_hosts.read_text()
    _fails(lab, folder, ssh, "its host key has changed", options=("--ssh-host-keys", "accept-new"))
    assert lab.client.known_hosts.read_text() == before


def an_unknown_host_key(lab: Lab, folder: Path, ssh: str) -> None:
    with changed(lab.client.known_hosts, lab.hosts[0].known().line()):
        _fails(lab, folder, ssh, "its host key is not known")


def an_unknown_host_key_with_accept_new(lab: Lab, folder: Path, ssh: str) -> None:
    """It is noted, so that the next time it is known."""
    file = lab.client.known_hosts
    with changed(file, ""), many(lab, folder, ssh) as launches:
        file.unlink()
        done = launches.run(launches.all(), HI, options=("--ssh-host-keys", "accept-new"))
        assert done.code == 0, done.err
        assert ssh == "openssh" or file.stat().st_mode & 0o777 == 0o600
        assert launches.run(launches.all(), HI).code == 0


def a_refused_connection(lab: Lab, folder: Path, ssh: str) -> None:
    lab.hosts[1].stop_sshd()
    _fails(lab, folder, ssh, "it refuses connections")


def a_name_that_does_not_resolve(lab: Lab, folder: Path, ssh: str) -> None:
    with many(lab, folder, ssh) as launches:
        done = launches.run(f"{lab.hosts[0].name} slots=1\nnowhere.invalid slots=1\n", HI)
    done.fails_with("nowhere.invalid: its name does not resolve")


def a_hanging_host(lab: Lab, folder: Path, ssh: str) -> None:
    lab.hosts[1].hang()
    _fails(lab, folder, ssh, "did not answer within 1 s", options=("--connect-timeout", "1"))


def a_silent_network(lab: Lab, folder: Path, ssh: str) -> None:
    lab.hosts[1].cut(silently=True)
    _fails(lab, folder, ssh, "did not answer within 1 s", options=("--connect-timeout", "1"))


def no_python(lab: Lab, folder: Path, ssh: str) -> None:
    """None where it was asked for, and none on the login shell's path."""
    host = lab.hosts[1]
    profile = host.home / ".bash_profile"
    profile.write_text("PATH=/nowhere\n")
    try:
        with many(lab, folder, ssh) as launches:
            hosts = f"{lab.hosts[0].name} slots=1\n{host.name} slots=1 python=/no/such/python\n"
            launches.run(hosts, HI).fails_with(f"{host.name}: it has no Python")
    finally:
        profile.unlink()


def an_alias_with_port_user_and_key(lab: Lab, folder: Path, ssh: str) -> None:
    first, second = lab.hosts[:2]
    second.configure("Port 2222")
    config = (
        f"Host trainer\n HostName {second.address}\n Port 2222\n User root\n"
        f" IdentityFile {lab.client.identity}\n"
    )
    known = lab.client.known_hosts.read_text()
    line = f"[{second.address}]:2222 {second.sshd.host_key}\n"
    with (
        configured(lab, config),
        changed(lab.client.known_hosts, known + line),
        many(lab, folder, ssh) as launches,
    ):
        done = launches.run(f"{first.name} slots=1\ntrainer slots=1\n", HI)
    assert done.code == 0, done.err
    said = sorted(line.split() for line in done.out.splitlines())
    assert said == [["h0:0", "|", "hi"], ["trainer:1", "|", "hi"]]


def through_a_jump_host(lab: Lab, folder: Path, ssh: str) -> None:
    first, second = lab.hosts[:2]
    config = f"Host behind\n HostName {second.address}\n ProxyJump {first.name}\n"
    _arrives_from(lab, folder, ssh, config)


def through_a_command(lab: Lab, folder: Path, ssh: str) -> None:
    first, second = lab.hosts[:2]
    command = f"ssh -W %h:%p {first.name}"
    config = f"Host behind\n HostName {second.address}\n ProxyCommand {command}\n"
    _arrives_from(lab, folder, ssh, config)


def _fails(lab: Lab, folder: Path, ssh: str, reason: str, options: tuple[str, ...] = ()) -> None:
    with many(lab, folder, ssh) as launches:
        done = launches.run(launches.all(), HI, options=options)
    done.fails_with(lab.hosts[1].name, reason)


def _arrives_from(lab: Lab, folder: Path, ssh: str, config: str) -> None:
    first, second = lab.hosts[:2]
    before = len(second.log)
    with configured(lab, config), many(lab, folder, ssh) as launches:
        done = launches.run(f"{first.name} slots=1\nbehind slots=1\n", HI)
    assert done.code == 0, done.err
    assert f"Accepted publickey for root from {first.address} " in second.log[before:]


ALL = (
    a_refused_key,
    a_changed_host_key,
    a_changed_host_key_with_accept_new,
    an_unknown_host_key,
    an_unknown_host_key_with_accept_new,
    a_refused_connection,
    a_name_that_does_not_resolve,
    a_hanging_host,
    a_silent_network,
    no_python,
    an_alias_with_port_user_and_key,
    through_a_jump_host,
    through_a_command,
)
