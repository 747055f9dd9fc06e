"""Hosts reached by paramiko: the journeys, and what is paramiko's alone."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import journey_many
import pytest
from hosts import Lab
from journey_many import HI, LONG, changed, configured, many
from namespaces import BOUND
from sshd import make_key

from zlaunch.backends.openssh import SshOptions
from zlaunch.backends.remote import Entrance
from zlaunch.backends.ssh import SshBackend, SshLink
from zlaunch.spec.hostfile import Host

Journey = Callable[[Lab, Path, str], None]


@pytest.mark.parametrize("journey", journey_many.ALL, ids=lambda journey: journey.__name__)
def test_journey(journey: Journey, lab2: Lab, tmp_path: Path) -> None:
    journey(lab2, tmp_path, "paramiko")


@pytest.mark.parametrize("ssh", ["paramiko", "openssh"])
def test_faults_among_eight(lab8: Lab, tmp_path: Path, ssh: str) -> None:
    """Each host that cannot be reached is named with its reason; nothing is left on the others."""
    lab8.hosts[2].change_host_key()
    lab8.hosts[3].refuse_key()
    lab8.hosts[4].stop_sshd()
    lab8.hosts[5].hang()
    with many(lab8, tmp_path, ssh) as launches:
        hosts = launches.all() + "no-such-host slots=1\n"
        done = launches.run(hosts, HI, options=("--connect-timeout", "4"))
    done.fails_with()
    for host, reason in (
        ("h2", "its host key has changed"),
        ("h3", "it refuses our key"),
        ("h4", "it refuses connections"),
        ("h5", "did not answer within 4 s"),
        ("no-such-host", "its name does not resolve"),
    ):
        assert any(host in line and reason in line for line in done.err.splitlines()), done.err


# What is not the same over openssh


def test_a_proxy_command_that_fails_is_quoted(lab2: Lab, tmp_path: Path) -> None:
    config = "Host behind\n HostName 10.0.0.1\n ProxyCommand echo no way >&2; false\n"
    with configured(lab2, config), many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run("behind slots=1\n", HI)
    done.fails_with("behind: its ProxyCommand failed", "no way")


def test_a_jump_in_a_circle(lab2: Lab, tmp_path: Path) -> None:
    config = "Host a\n ProxyJump b\nHost b\n ProxyJump a\n"
    with configured(lab2, config), many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run("a slots=1\n", HI)
    done.fails_with("a: ", "round in a circle")


def test_a_fault_behind_a_jump_host(lab2: Lab, tmp_path: Path) -> None:
    first, second = lab2.hosts
    config = f"Host behind\n HostName {second.address}\n ProxyJump {first.name}\n"
    with configured(lab2, config), many(lab2, tmp_path, "paramiko") as launches:
        second.stop_sshd()
        launches.run("behind slots=1\n", HI).fails_with("behind: the jump host cannot connect")
        first.refuse_key()
        done = launches.run("behind slots=1\n", HI)
        done.fails_with(f"behind: the way over {first.name} failed: it refuses our key")


def test_a_configuration_that_cannot_be_read(lab2: Lab, tmp_path: Path) -> None:
    with configured(lab2, "Host *\n Port many\n"), many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), HI)
    done.fails_with(f"{lab2.client.included}:2: ", "port many")


def test_an_encrypted_key_is_passed_over_with_a_word(lab2: Lab, tmp_path: Path) -> None:
    key = make_key(tmp_path / "locked")
    encrypt = ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(key)]
    subprocess.run(encrypt, check=True, timeout=BOUND, stdin=subprocess.DEVNULL)
    config = lab2.client.config.read_text()
    mine = config.replace(str(lab2.client.identity), str(key))
    with changed(lab2.client.config, mine), many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), HI)
    done.fails_with("there is no key to log in with", f"{key} is encrypted")


@contextmanager
def ssh_agent(folder: Path, key: Path) -> Iterator[str]:
    name = str(folder / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", name], stdout=subprocess.DEVNULL) as agent:
        try:
            end = time.monotonic() + BOUND
            while not Path(name).exists() and time.monotonic() < end:
                time.sleep(0.02)
            env = {**os.environ, "SSH_AUTH_SOCK": name}
            subprocess.run(["ssh-add", "-q", str(key)], env=env, check=True, timeout=BOUND)
            yield name
        finally:
            agent.terminate()


@pytest.mark.parametrize("only", ["yes", "no"])
def test_a_key_of_the_agent(lab2: Lab, tmp_path: Path, only: str) -> None:
    """With IdentitiesOnly too, where the file's public half is there."""
    away = tmp_path / "key"
    config = lab2.client.config.read_text().replace("IdentitiesOnly yes", f"IdentitiesOnly {only}")
    if only == "no":
        config = config.replace(str(lab2.client.identity), "/no/such/key")
    lab2.client.identity.rename(away)
    try:
        with (
            ssh_agent(tmp_path, away) as name,
            changed(lab2.client.config, config),
            many(lab2, tmp_path, "paramiko") as launches,
        ):
            launches.env["SSH_AUTH_SOCK"] = name
            done = launches.run(launches.all(), HI)
            assert done.code == 0, done.err
    finally:
        away.rename(lab2.client.identity)


# The link itself


def opened(lab: Lab, names: list[str], timeout: float = 5.0) -> tuple[SshBackend, list[SshLink]]:
    hosts = {rank: Host(name, (0,), line=1) for rank, name in enumerate(names)}
    entrances = dict.fromkeys(hosts, Entrance((sys.executable,)))
    backend = SshBackend(hosts, entrances, SshOptions(connect_timeout=timeout), lab.client.home)
    begun = time.monotonic()
    links = [backend.open(rank, host.name) for rank, host in hosts.items()]
    assert time.monotonic() - begun < timeout  # nothing is waited for
    return backend, links


def ours() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def files() -> set[str]:
    links = Path("/proc/self/fd").iterdir()
    return {f"{link.name} {link.readlink()}" for link in links if link.is_symlink()}


def test_no_thread_and_no_descriptor_is_left(lab2: Lab) -> None:
    names = [host.name for host in lab2.hosts]
    lab2.hosts[1].hang()
    opened(lab2, names[:1])[1][0].close(0.0)  # everything imported
    time.sleep(0.5)
    threads, descriptors = threading.active_count(), files()
    for talk in (True, False):
        backend, links = opened(lab2, [*names, "nowhere.invalid"], 1.0)
        if talk:
            os.write(links[0].outgoing, links[0].greeting)
            assert select.select([links[0].incoming], [], [], BOUND)[0]
            assert os.read(links[0].incoming, 1 << 16)
            assert links[0].close(BOUND) == "exit code 0"
        for link in links:
            link.close(0.0)
        backend.close()
        assert threading.active_count() == threads, ours()
        assert files() == descriptors


def test_a_host_that_never_speaks_ends_by_itself_within_the_bound(lab2: Lab) -> None:
    lab2.hosts[0].hang()
    begun = time.monotonic()
    backend, (link,) = opened(lab2, [lab2.hosts[0].name], 1.0)
    assert select.select([link.incoming], [], [], BOUND)[0]
    assert os.read(link.incoming, 1) == b""
    assert time.monotonic() - begun > 0.9
    words = os.read(link.errors, 1 << 16).decode()
    assert words.startswith("it did not answer within 1 s (waiting for the SSH greeting of ")
    assert (
        link.explain("has ended", words.strip(), False) == f"{lab2.hosts[0].name}: {words.strip()}"
    )
    link.close(0.0)
    backend.close()


def test_a_reader_that_is_slow_holds_the_host_up(lab2: Lab) -> None:
    """What a host may have sent beyond what was read stays within the window and the pipe."""
    backend, (link,) = opened(lab2, [lab2.hosts[0].name])
    flood = b"import sys\nwhile True: sys.stdout.write('x' * 65536)\n"
    packed = zlib.compress(flood)
    os.write(link.outgoing, b"%08d" % len(packed) + packed)
    assert select.select([link.incoming], [], [], BOUND)[0]
    before = rss()
    time.sleep(1.0)
    assert rss() - before < 8 << 20
    assert link.close(0.0)
    backend.close()


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Modules


LOADED = """
import sys
from zlaunch.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("paramiko" in sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "args", [["--help"], ["multinode", "--help"], ["run", "--cpu", "1", "job.py"]]
)
def test_paramiko_is_not_loaded_for(args: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(HI)
    env = {**os.environ, "ZLAUNCH_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *args], cwd=tmp_path, env=env,
        capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == "False", done.stderr


# What a host prints by itself


@pytest.mark.parametrize("ssh", ["paramiko", "openssh"])
@pytest.mark.parametrize(
    "rc", ["echo hello\n", "printf '\\0\\377garbage'\n", "echo words on stderr >&2\n"]
)
def test_start_files_that_print_are_no_hindrance(
    lab2: Lab, tmp_path: Path, ssh: str, rc: str
) -> None:
    file = lab2.hosts[1].home / ".bashrc"
    file.write_text(rc)
    try:
        with many(lab2, tmp_path, ssh) as launches:
            done = launches.run(launches.all(), HI)
    finally:
        file.unlink()
    assert done.code == 0, done.err


@pytest.mark.parametrize("ssh", ["paramiko", "openssh"])
def test_a_host_that_says_why_it_runs_nothing_is_quoted(
    lab2: Lab, tmp_path: Path, ssh: str
) -> None:
    lab2.hosts[1].configure('ForceCommand echo "Permission denied: this account is closed"')
    with many(lab2, tmp_path, ssh) as launches:
        done = launches.run(launches.all(), HI)
    done.fails_with("the agent on h1 has ended", "Permission denied: this account is closed")
    assert "refuses our key" not in done.err


def test_many_hosts_behind_one_jump_host(lab8: Lab, tmp_path: Path) -> None:
    names = [host.name for host in lab8.hosts[1:]]
    config = "".join(
        f"Host b{n}\n HostName {host.address}\n ProxyJump {lab8.hosts[0].name}\n"
        for n, host in enumerate(lab8.hosts[1:])
    )
    with configured(lab8, config), many(lab8, tmp_path, "paramiko") as launches:
        done = launches.run("".join(f"b{n} slots=1\n" for n in range(len(names))), HI)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert "EOFError" not in done.err


@pytest.mark.parametrize("version", ["3.6", "3.7"])
def test_a_python_that_is_too_old_is_named(lab2: Lab, tmp_path: Path, version: str) -> None:
    python = os.environ.get(f"ZLAUNCH_TEST_PYTHON{version.replace('.', '')}")
    if python is None:
        pytest.skip(f"no Python {version} is named by ZLAUNCH_TEST_PYTHON{version[::2]}")
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(f"{lab2.hosts[0].name} slots=1 python={python}\n", HI)
    done.fails_with(f"Python {version} is too old: an agent needs 3.9 or newer")


# Known hosts


def test_a_new_key_is_noted_as_hash_known_hosts_has_it(lab2: Lab, tmp_path: Path) -> None:
    file = lab2.client.known_hosts
    with (
        changed(file, ""),
        configured(lab2, "HashKnownHosts yes\n"),
        many(lab2, tmp_path, "paramiko") as launches,
    ):
        done = launches.run(launches.all(), HI, options=("--ssh-host-keys", "accept-new"))
        assert done.code == 0, done.err
        noted = file.read_text().splitlines()
        assert len(noted) == 2
        assert all(line.startswith("|1|") for line in noted)
        assert launches.run(launches.all(), HI).code == 0  # it is known now
        done = lab2.run(lab2.hosts[0], "true", options=("-o", "StrictHostKeyChecking=yes"))
        assert done.returncode == 0, done.stderr  # to OpenSSH as well


def test_an_authority_is_for_openssh(lab2: Lab, tmp_path: Path) -> None:
    host = lab2.hosts[0]
    line = f"@cert-authority {host.address} {host.sshd.host_key}\n"
    with changed(lab2.client.known_hosts, line), many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(f"{host.name} slots=1\n", HI)
    done.fails_with("and paramiko reads no certificate", "--ssh openssh checks the certificates")
