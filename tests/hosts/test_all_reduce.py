"""All-reduce over real hosts: on uneven ones, with one that is slow, and with nothing shared."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hosts import Host, Lab
from journey_many import LONG, many
from namespaces import BOUND, program

MEASURE = """
import json, os, sys
from zlaunch.cli.bandwidth import measure
from zlaunch.cli.find_place import find_place
from zlaunch.cli.request import ManyHosts, Request
from zlaunch.insight.slow_hosts import judge

many = ManyHosts(hosts=sys.argv[1], force_ssh=True)
with find_place(Request("", device="cpu", many=many), os.environ, gather=None) as place:
    done = measure(place, os.environ, limit=50, python=sys.argv[2])
print(json.dumps({
    "bandwidth": done.bandwidth.to_json(),
    "failure": done.failure and vars(done.failure),
    "verdicts": [verdict.text for verdict in judge(done.bandwidth)],
    "blamed": [verdict.hosts for verdict in judge(done.bandwidth)],
}))
"""
# The launcher's /tmp as it is, but what it writes there is for its own eyes.
ALONE = """
mount -t tmpfs none /mnt; mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=/tmp,upperdir=/mnt/upper,workdir=/mnt/work overlay /tmp
exec "$@"
"""
SLOW = "root tbf rate 200mbit burst 256kbit latency 400ms"


@dataclass(frozen=True)
class Found:
    """What the launcher printed of the measurement."""

    bandwidth: dict[str, object]
    failure: dict[str, object] | None
    verdicts: list[str]
    blamed: list[list[str]]

    def groups(self) -> list[tuple[str, list[str], int]]:
        measured = self.bandwidth["measured"]
        assert isinstance(measured, list)
        return [(one["kind"], one["hosts"], one["ranks"]) for one in measured]


def measured(
    lab: Lab, folder: Path, hosts: str, *before: str, python: str = sys.executable
) -> Found:
    with many(lab, folder, "paramiko") as launches:
        command = [*before, sys.executable, "-c", MEASURE, hosts, python]
        done = subprocess.run(
            command, cwd=folder, env=launches.env, capture_output=True, text=True,
            timeout=LONG, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    return Found(**json.loads(done.stdout))


@contextmanager
def slowed(host: Host) -> Iterator[None]:
    """What the host sends passes a narrow place."""

    def qdisc(verb: str, *words: str) -> None:
        command = host.command(program("tc") or "tc", "qdisc", verb, "dev", "eth0", *words)
        subprocess.run(command, check=True, timeout=BOUND)

    qdisc("add", *SLOW.split())
    try:
        yield
    finally:
        qdisc("del", "root")


def test_uneven_hosts(lab2: Lab, tmp_path: Path) -> None:
    found = measured(lab2, tmp_path, "h0:1,h1:3")
    assert found.failure is None
    assert found.groups() == [
        ("within", ["h1"], 3),
        ("world", ["h0", "h1"], 4),
        ("pair", ["h0", "h1"], 2),
    ]
    assert not list(tmp_path.glob("runs/*"))  # it was no run of the user's


@pytest.mark.skipif(program("tc") is None, reason="slowing a host down needs tc, of iproute2")
def test_a_slow_host_is_named(lab8: Lab, tmp_path: Path) -> None:
    with slowed(lab8.hosts[2]):
        found = measured(lab8, tmp_path, "h0:1,h1:1,h2:1,h3:1")
    assert found.failure is None
    ring = [["h0", "h1"], ["h1", "h2"], ["h2", "h3"], ["h3", "h0"]]
    assert [hosts for kind, hosts, _ in found.groups() if kind == "pair"] == ring
    assert found.blamed == [["h2"]], found
    assert found.verdicts[0].startswith("h2 is slow: 0.02")


def test_nothing_is_there_before_nor_afterwards(lab2: Lab, tmp_path: Path) -> None:
    """The program comes with the plan where the hosts do not share the launcher's disk."""
    alone = ("unshare", "--mount", "sh", "-euc", ALONE, "alone")
    assert measured(lab2, tmp_path, "h1:2", *alone).groups() == [("within", ["h1"], 2)]
    assert not list(Path("/tmp").glob("zlaunch-*/runs/*/all_reduce.py"))


def test_a_host_without_torch(lab2: Lab, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    failure = measured(lab2, tmp_path, "h0:1,h1:1", python=str(bare)).failure
    assert failure is not None
    assert "exit code 1" in str(failure["message"])
    assert "No module named 'torch'" in str(failure["words"])
    assert "--python" in str(failure["hint"])


def test_a_host_that_cannot_be_reached(lab2: Lab, tmp_path: Path) -> None:
    lab2.hosts[1].refuse_key()
    failure = measured(lab2, tmp_path, "h0:1,h1:1").failure
    assert failure is not None
    assert failure["exit_code"] == 125
    assert "it refuses our key" in str(failure["message"])
