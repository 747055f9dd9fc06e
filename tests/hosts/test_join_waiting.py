"""Nodes that wait for each other: who is missing, who is refused and why, who is no node at all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Lab
from join_nodes import PORT, TOKEN, Nodes, nodes_of

OTHER_VERSION = (
    "-c",
    "import zlaunch; zlaunch.__version__ = '9.8.7'; from zlaunch.cli.main import main; main()",
)


@pytest.fixture
def nodes(lab2: Lab, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_of(tmp_path, lab2) as started:
        yield started


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Nodes]:
    """On this machine, for what ends before anybody connects."""
    with nodes_of(tmp_path) as started:
        yield started


def listens(nodes: Nodes, seconds: float = 10.0) -> tuple[str, int]:
    """Wait until node 0 can be connected to from here; where."""
    address = nodes.lab.hosts[0].address if nodes.lab else "127.0.0.1"
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((address, PORT), 1).close()
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
        else:
            return address, PORT


# Missing


def test_a_missing_node_is_named_on_all_others(nodes: Nodes) -> None:
    timeout = ("--cpu", "1", "--join-timeout", "3")
    first = nodes.start(0, nnodes=3, options=timeout)
    second = nodes.start(1, nnodes=3)
    first.until("waiting for node 2 of 3; 1 joined", 5)
    begun = time.monotonic()
    here, there = nodes.run(first, second)
    assert time.monotonic() - begun < 10
    assert (here.code, there.code) == (124, 124)
    assert "node 2 of 3 did not join within 3 s (--join-timeout)" in here.err
    assert "node 0 gave up: node 2 of 3 did not join within 3 s" in there.err
    (record,) = nodes.home.glob("runs/*/run.json")
    assert json.loads(record.read_text())["exit_code"] == 124


def test_node_0_is_missing(nodes: Nodes) -> None:
    second = nodes.start(1, options=("--cpu", "1", "--join-timeout", "1"))
    there = second.end(15)
    assert there.code == 124
    assert f"node 0 at {nodes.rendezvous} could not be joined within 1 s" in there.err
    assert "(connection refused)" in there.err


def test_another_service_at_the_address(nodes: Nodes) -> None:
    there = nodes.start(
        1,
        rendezvous=f"{nodes.lab.hosts[0].address}:22",  # type: ignore[union-attr]
        options=("--cpu", "1", "--join-timeout", "1"),
    ).end(15)
    assert there.code == 124
    assert "what was read is not of zlaunch join" in there.err


@pytest.mark.parametrize("signum", [2, 15])
def test_a_node_that_waits_may_leave_and_come_again(nodes: Nodes, signum: int) -> None:
    first = nodes.start(0, nnodes=3)
    second = nodes.start(1, nnodes=3)
    second.until("joined node 0")
    second.send(signal.Signals(signum))
    assert second.end(10).code == 128 + signum
    first.until("node 1 (h1) has left again", 10)
    again = [nodes.start(rank, nnodes=3) for rank in (1, 2)]
    assert [node.end().code for node in (first, *again)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("signum", "words"), [(2, "node 0 was interrupted"), (15, "node 0 was stopped")]
)
def test_node_0_is_stopped_while_it_waits(nodes: Nodes, signum: int, words: str) -> None:
    first, second = nodes.start(0, nnodes=3), nodes.start(1, nnodes=3)
    second.until("joined node 0")
    first.send(signal.Signals(signum))
    here, there = nodes.run(first, second)
    assert (here.code, there.code) == (128 + signum, 128 + signum)
    assert words in there.err


def test_node_0_is_killed_while_it_waits(nodes: Nodes) -> None:
    first, second = nodes.start(0, nnodes=3), nodes.start(1, nnodes=3)
    second.until("joined node 0")
    first.process.kill()
    there = second.end(10)
    assert there.code == 125
    assert "is gone" in there.err


def test_a_waiting_node_is_cut_off(nodes: Nodes) -> None:
    options = ("--cpu", "1", "--heartbeat", "2")
    first, second = (nodes.start(rank, nnodes=3, options=options) for rank in (0, 1))
    second.until("joined node 0")
    nodes.lab.hosts[1].cut()  # type: ignore[union-attr]
    first.until("node 1 (h1) has left again", 10)
    there = second.end(10)
    assert there.code == 125
    assert "is gone" in there.err


# Refused


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"nnodes": 3}, "it says --nnodes 3, node 0 says 2"),
        ({"program": OTHER_VERSION}, "it has zlaunch 9.8.7, node 0 has 0.1.0"),
        (
            {"options": (), "env": {"CUDA_VISIBLE_DEVICES": "0"}},
            "it trains on GPUs, node 0 on the CPU",
        ),
    ],
    ids=["count", "version", "devices"],
)
def test_a_node_that_does_not_fit(nodes: Nodes, changes: dict[str, object], reason: str) -> None:
    first = nodes.start(0)
    wrong = nodes.start(1, **changes).end()  # type: ignore[arg-type]
    assert wrong.code == 2
    assert reason in wrong.err
    first.until(reason, 10)
    assert "refused h1 (" in first.err or "refused 10." in first.err
    assert nodes.run(first, nodes.start(1))[0].code == 0


def test_two_nodes_of_one_rank(nodes: Nodes) -> None:
    first, second = nodes.start(0, nnodes=3), nodes.start(1, nnodes=3)
    second.until("joined node 0")
    twin = nodes.start(1, nnodes=3, host=nodes.lab.hosts[0]).end()  # type: ignore[union-attr]
    assert twin.code == 2
    address = nodes.lab.hosts[1].address  # type: ignore[union-attr]
    reason = f"node rank 1 is taken by h1 ({address})"
    assert reason in twin.err
    assert f"refused h0 ({nodes.lab.hosts[0].address}): {reason}" in first.err  # type: ignore[union-attr]
    third = nodes.start(2, nnodes=3)
    assert [node.end().code for node in (first, second, third)] == [0, 0, 0]


def test_another_token(nodes: Nodes) -> None:
    first = nodes.start(0)
    nodes.token("another-0123456789", "another")
    wrong = nodes.start(1, token="another").end()
    assert wrong.code == 2
    assert "holds another token" in wrong.err
    first.until("holds another token (--token-file)", 10)
    assert nodes.run(first, nodes.start(1))[0].code == 0


def test_strangers_are_no_hindrance(nodes: Nodes) -> None:
    """Silent ones, more than may stay, and such as speak of something else."""
    first = nodes.start(0)
    where = listens(nodes)
    strangers = [socket.create_connection(where, 2) for _ in range(200)]
    for number, noise in enumerate((b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + os.urandom(300))):
        strangers[-1 - number].sendall(noise)
    begun = time.monotonic()
    here, there = nodes.run(first, nodes.start(1))
    assert time.monotonic() - begun < 10
    assert (here.code, there.code) == (0, 0)
    assert "is no zlaunch join" in here.err
    assert here.err.count("zlaunch:") < 12
    for stranger in strangers:
        stranger.close()


def test_a_stranger_is_let_go(nodes: Nodes) -> None:
    first = nodes.start(0)
    with socket.create_connection(listens(nodes), 10) as stranger:
        assert stranger.recv(10) == b""  # within the bound of a handshake, and with no word
    assert "said nothing of zlaunch join within 5 s" in first.err


# Before anybody is waited for


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--recipe", "zero9"), "zero9"),
        (("--master-port", str(PORT)), "is where the nodes meet"),
        (("--join-timeout", "0"), "--join-timeout 0"),
        (("--heartbeat", "nan"), "--heartbeat nan"),
    ],
)
def test_wrong_input_is_said_at_once(here: Nodes, options: tuple[str, ...], words: str) -> None:
    done = here.start(0, options=("--cpu", "1", *options)).end(15)
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("short", "holds 5 bytes"),
        (" ", "holds nothing"),
        ("x" * 5000, "more than 4096"),
        (None, ""),
    ],
)
def test_a_token_that_is_none(here: Nodes, rank: int, text: str | None, words: str) -> None:
    name = "missing" if text is None else here.token(text, "bad")
    done = here.start(rank, token=name).end(15)
    assert done.code == 2
    assert f"--token-file {name} " in done.err and words in done.err
    assert "secrets.token_hex" in done.err


def test_a_token_that_others_may_read_is_noted(here: Nodes) -> None:
    here.token(TOKEN, mode=0o644)
    started = [here.start(rank) for rank in (0, 1)]
    for done in here.run(*started):
        assert done.code == 0, done.err
        assert "--token-file token can be read by others (mode 0644)" in done.err


def test_a_port_in_use(here: Nodes) -> None:
    with socket.create_server(("127.0.0.1", PORT)):
        done = here.start(0).end(15)
    assert done.code == 2
    assert f"port {PORT} is in use by pid {os.getpid()}" in done.err


def test_a_batch_that_the_others_do_not_fit_ends_all(here: Nodes) -> None:
    """Known once all have said how many ranks they have; node 0 alone would have done."""
    first = here.start(0, options=("--cpu", "1", "--global-batch", "4", "--micro-batch", "2"))
    second = here.start(1, options=("--cpu", "2"))
    for done in here.run(first, second):
        assert done.code == 2, done.err
        assert "batch" in done.err
    assert not list(here.home.glob("runs/*"))


def test_a_dry_run_asks_nobody(here: Nodes) -> None:
    done = here.start(1, "--lr", "1", options=("--cpu", "2", "--dry-run", "--json")).end(15)
    assert done.code == 0
    assert f"this is node 1 of 2; node 0 listens at 127.0.0.1:{PORT} (by --nnodes" in (
        done.err.replace("--node-rank, ", "")
    )
    plan = json.loads(done.out)
    assert [worker["node_rank"] for worker in plan["workers"]] == [0, 0, 1, 1]
    assert plan["workers"][3]["argv"][-2:] == ["--lr", "1"]


def test_one_node_needs_nobody(here: Nodes) -> None:
    done = here.start(None, options=("--cpu", "2", "--nnodes", "1")).end()
    assert (done.code, done.out.count("hi")) == (0, 2), done.err


def test_the_help_names_every_option_once() -> None:
    command = [sys.executable, "-m", "zlaunch", "join", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for option in ("--nnodes", "--node-rank", "--rendezvous", "--token-file", "--gpus", "--recipe"):
        assert text.count(f"{option} ") == 1, option
    assert "--hostfile" not in text
