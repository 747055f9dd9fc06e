"""Nodes that join by themselves, on hosts as network namespaces: runs, failures, lost nodes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Lab
from join_nodes import SLEEP, TOKEN, Nodes, nodes_of
from journey_many import ARGS

PROBE = """
import json, os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "OWN", "OMP_NUM_THREADS",
         "ROLE_NAME")
print(json.dumps([sys.argv[1:], *(os.environ.get(name) for name in names)]))
"""
NOHUP = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from zlaunch.cli.main import main
main()
"""
OBEDIENT = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print('up', flush=True)
time.sleep(600)
"""


@pytest.fixture
def nodes(lab2: Lab, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_of(tmp_path, lab2) as started:
        yield started


def up(nodes: Nodes, *codes: str, options: tuple[str, ...] = ()) -> None:
    """Start nodes that run these, and wait until all are up."""
    for rank, code in enumerate(codes):
        nodes.start(rank, code=code, options=("--cpu", "1", *options))
    end = time.monotonic() + 20
    while nodes.nodes[0].out.count("| up") < len(codes):
        assert time.monotonic() < end, [node.err for node in nodes.nodes]
        time.sleep(0.02)


def test_each_node_keeps_its_command_line_and_its_environment(nodes: Nodes) -> None:
    outer = {"RANK": "77", "MASTER_ADDR": "elsewhere", "ROLE_NAME": "outer"}
    own = {"OWN": "b", "OMP_NUM_THREADS": "5"}
    second = nodes.start(1, "second", code=PROBE, options=("--cpu", "2"), env=outer | own)
    own = {"OWN": "a", "OMP_NUM_THREADS": "3"}
    first = nodes.start(0, *ARGS, code=PROBE, env=outer | own)
    here, there = nodes.run(first, second)
    assert (here.code, there.code) == (0, 0), here.err + there.err
    told = sorted(
        (json.loads(line.partition(" | ")[2]) for line in here.out.splitlines()),
        key=lambda fields: fields[1],
    )
    address = nodes.rendezvous.partition(":")[0]
    assert told == [
        [ARGS, "0", "0", "3", "0", address, "a", "3", None],
        [["second"], "1", "0", "3", "1", address, "b", "5", None],
        [["second"], "2", "1", "3", "1", address, "b", "5", None],
    ]
    assert "h0:0 | " in here.out
    assert "finished" in there.err
    assert there.out == ""


def test_the_token_is_written_nowhere(nodes: Nodes) -> None:
    up(nodes, SLEEP, SLEEP)
    for pids in nodes.lab.processes(nodes.marker).values():  # type: ignore[union-attr]
        for pid in pids:
            for name in ("cmdline", "environ"):
                assert TOKEN.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    nodes.nodes[0].send(signal.SIGINT)
    nodes.run(*nodes.nodes)
    files = [file for file in nodes.home.rglob("*") if file.is_file()]
    assert len(files) > 4
    for file in files:
        assert TOKEN.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("rank", [0, 1])
def test_a_failure_on_one_node_ends_all(nodes: Nodes, rank: int) -> None:
    codes = [SLEEP, SLEEP]
    codes[rank] = "import time; time.sleep(0.3); raise SystemExit(7)"
    first, second = (nodes.start(r, code=code) for r, code in enumerate(codes))
    here, there = nodes.run(first, second)
    assert (here.code, there.code) == (7, 7)
    assert f"rank {rank} on h{rank}" in here.err
    assert f"failed (exit code 7): rank {rank} failed first" in there.err


def test_all_that_is_written_arrives(nodes: Nodes) -> None:
    code = "import os\nfor i in range(20000): print(os.environ['RANK'], i, 'x' * 60)\n"
    here, there = nodes.run(*(nodes.start(rank, code=code) for rank in (0, 1)))
    assert (here.code, there.code) == (0, 0)
    (logs,) = (nodes.home / "runs").glob("*/logs")
    for rank in range(2):
        expected = "".join(f"{rank} {i} {'x' * 60}\n" for i in range(20000))
        assert (logs / f"rank-{rank}.log").read_text() == expected


def test_a_hang_up_that_is_ignored_stays_so(nodes: Nodes) -> None:
    """As under nohup, on whichever node."""
    for rank in (0, 1):
        nodes.start(rank, code=SLEEP, program=("-c", NOHUP))
    nodes.nodes[0].until("h1:1 | up")
    nodes.nodes[1].send(signal.SIGHUP)
    time.sleep(0.3)
    assert [node.process.poll() for node in nodes.nodes] == [None, None]
    nodes.nodes[1].send(signal.SIGINT)
    assert [done.code for done in nodes.run(*nodes.nodes)] == [130, 130]


def test_node_0_may_come_last(nodes: Nodes) -> None:
    second = nodes.start(1)
    second.until(f"waiting for node 0 at {nodes.rendezvous} (connection refused)", 12)
    here, there = nodes.run(nodes.start(0), second)
    assert (here.code, there.code) == (0, 0)


def test_node_0_is_killed(nodes: Nodes) -> None:
    up(nodes, SLEEP, SLEEP)
    nodes.nodes[0].process.kill()
    nodes.nothing_left(3.0)
    there = nodes.nodes[1].end()
    assert there.code == 125
    assert f"node 0 at {nodes.rendezvous} is gone" in there.err


def test_a_joined_node_is_killed(nodes: Nodes) -> None:
    up(nodes, SLEEP, SLEEP)
    nodes.nodes[1].process.kill()
    here = nodes.nodes[0].end(10)
    assert here.code == 125
    assert "the agent of node 1 on h1 has ended" in here.err
    nodes.nothing_left(3.0)


def test_a_host_is_cut_off(nodes: Nodes) -> None:
    up(nodes, SLEEP, SLEEP, options=("--heartbeat", "2"))
    nodes.lab.hosts[1].cut()  # type: ignore[union-attr]
    begun = time.monotonic()
    here, there = nodes.run(*nodes.nodes)
    assert time.monotonic() - begun < 30
    assert (here.code, there.code) == (125, 125)
    assert "the agent of node 1 on h1 was not heard of for 2 s" in here.err
    assert "is gone" in there.err


@pytest.mark.parametrize(("rank", "signum"), [(1, 2), (1, 15), (0, 2)])
def test_a_signal_on_any_node_stops_the_run(nodes: Nodes, rank: int, signum: int) -> None:
    """Even where the ranks there end with 0 upon it."""
    up(nodes, OBEDIENT, OBEDIENT)
    nodes.nodes[rank].send(signal.Signals(signum))
    here, there = nodes.run(*nodes.nodes)
    assert (here.code, there.code) == (128 + signum, 128 + signum)
    assert "was stopped by" in here.err
    assert "was stopped by" in there.err


def test_slurm_says_who_is_who(nodes: Nodes) -> None:
    """Its names resolve on the hosts, and MASTER_ADDR there is meant for the workers."""
    job = {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "h[0-1]", "SLURM_STEP_NUM_TASKS": "2"}
    job |= {"MASTER_ADDR": "nowhere", "WORLD_SIZE": "16"}
    hosts = nodes.lab.hosts  # type: ignore[union-attr]
    first, second = (
        nodes.start(None, code=PROBE, host=host, env={**job, "SLURM_NODEID": str(rank)})
        for rank, host in enumerate(hosts)
    )
    here, there = nodes.run(first, second)
    assert (here.code, there.code) == (0, 0), here.err + there.err
    assert here.out.count(f'"{hosts[0].address}"') == 2


def test_over_ipv6(nodes: Nodes) -> None:
    address = nodes.lab.hosts[0].address6  # type: ignore[union-attr]
    started = [nodes.start(r, code=PROBE, rendezvous=f"[{address}]:29401") for r in (0, 1)]
    here, there = nodes.run(*started)
    assert (here.code, there.code) == (0, 0), here.err + there.err
    assert here.out.count(f'"{address}"') == 2
