"""Signals that the ranks want: passed on to each main process, and the run goes on."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from journeys import Journey, children_of, eventually
from test_detach import node, port

__all__ = ["port"]

COUNTS = """
import os, pathlib, signal, subprocess, sys, time
names = sys.argv[1:]
counts = dict.fromkeys(names, 0)
def hear(signum, _):
    counts[signal.Signals(signum).name] += 1
    print("got", signal.Signals(signum).name, counts[signal.Signals(signum).name], flush=True)
for name in names:
    signal.signal(getattr(signal, name), hear)
child = subprocess.Popen(["sleep", "600"])  # would die of any of them
print("up", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
print("child", child.poll(), *counts.values(), flush=True)
"""

# Asks its data loader, a child in its group, for batches as long as it saves.
SAVES = r"""
import os, pathlib, signal, subprocess, sys, time
loader = '''
import os, pathlib, signal, sys, time
def note(signum, frame):
    pathlib.Path("loader-" + os.environ["RANK"]).write_text(str(signum))
    sys.exit(1)
for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(signum, note)
for _ in sys.stdin:
    print("batch", flush=True)
'''
rank, pipe = os.environ["RANK"], subprocess.PIPE
child = subprocess.Popen([sys.executable, "-c", loader], stdin=pipe, stdout=pipe, text=True)
def batch():
    child.stdin.write("x\n")
    child.stdin.flush()
    return child.stdout.readline()
assert batch() == "batch\n"
def save(*_):
    for _ in range(30):
        assert batch() == "batch\n"
        time.sleep(0.1)
    pathlib.Path("checkpoint-" + rank).write_text("whole")
    while sys.argv[1] != "well":
        time.sleep(1)
    os._exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
"""


def test_those_that_were_asked_for(journey: Journey) -> None:
    names = ("SIGUSR2", "SIGWINCH", "SIGALRM", "SIGRTMIN")
    asked = ("--forward-signals", "USR2,SIGWINCH,ALRM,RTMIN")
    live = journey.start("run", "--cpu", "2", *asked, journey.script(COUNTS), *names)
    live.until("| up", count=2)
    for name in names:
        live.send(getattr(signal, name))
        live.until(f"| got {name} 1", count=2)
    (journey.folder / "go").touch()
    done = live.end()
    assert done.code == 0
    assert done.out.count("| child None 1 1 1 1") == 2


def test_none_at_all(journey: Journey) -> None:
    """The signal does what it does to any process, and nothing stays behind."""
    asked = ("--forward-signals", "none")
    live = journey.start("run", "--cpu", "2", *asked, journey.script(COUNTS), "SIGUSR1")
    live.until("| up", count=2)
    live.send(signal.SIGUSR1)
    done = live.end()
    assert done.code == -signal.SIGUSR1
    assert "got" not in done.out
    journey.assert_gone()


def test_nonsense_is_refused(journey: Journey) -> None:
    nodes = ("--nnodes", "2", "--rendezvous", "127.0.0.1:29400", "--node-rank")
    commands = (("run",), ("multinode", "--hosts", "localhost:1"), *(
        ("join", *nodes, rank) for rank in "01"
    ))  # fmt: skip
    for command in commands:
        done = journey.zlaunch(*command, "--forward-signals", "USR1,TERM", journey.script("1"))
        assert done.code == 2
        assert "--forward-signals TERM: SIGTERM stops the run" in done.err
    done = journey.zlaunch("run", "--forward-signals", "52", journey.script("1"))
    assert (done.code, "zlaunch takes stacks by SIGRTMIN+18" in done.err) == (2, True)
    assert journey.runs == []


# The agent stands still from its beginning on: until it is let go, there are no ranks.
STILL = """
import os, signal, sys
from zlaunch.backends import early_agent
from zlaunch.cli.main import main
begin = early_agent.begin
def still():
    begin()
    os.kill(early_agent._begun[0]._process.pid, signal.SIGSTOP)
early_agent.begin = still
main()
"""


def test_before_there_are_ranks_it_ends_nothing(journey: Journey) -> None:
    """It is said that nobody got it; a rank that is about to start could only die of it."""
    command = (sys.executable, "-c", STILL)
    live = journey.start("run", "--cpu", "2", journey.script(COUNTS), "SIGUSR1", command=command)
    mark = Path(f"/proc/{live.pid}/status")
    assert eventually(lambda: not _default(mark, signal.SIGUSR1))
    live.send(signal.SIGUSR1)
    live.until("zlaunch: SIGUSR1: no rank is running, so it was passed on to nobody")
    (agent,) = children_of(live.pid)
    os.kill(agent, signal.SIGCONT)
    live.until("| up", count=2)
    (journey.folder / "go").touch()
    done = live.end()
    assert done.code == 0
    assert "zlaunch: SIGUSR1: no rank is running, so it was passed on to nobody" in done.err


def test_while_another_node_is_waited_for(journey: Journey, port: int) -> None:
    script = journey.script("print('up')")
    live = journey.start(*node(journey, 0, port, script=script))
    live.until("waiting for node 1")
    live.send(signal.SIGUSR1)
    live.until("zlaunch: SIGUSR1: no rank is running, so it was passed on to nobody")
    other = journey.start(*node(journey, 1, port, script=script))
    assert (live.end().code, other.end().code) == (0, 0)
    assert live.text.count("| up") == 2


def _default(status: Path, signum: int) -> bool:
    caught = next(x for x in status.read_text().splitlines() if x.startswith("SigCgt:"))
    return not int(caught.split()[1], 16) >> (signum - 1) & 1


def test_while_the_ranks_are_ending(journey: Journey) -> None:
    """One that saves may still be told something, and does not die of it."""
    live = journey.start("run", "--cpu", "2", journey.script("""
import signal, sys, time
def save(*_):
    print("saving", flush=True)
    time.sleep(1)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, lambda *_: print("noted", flush=True))
print("up", flush=True)
time.sleep(600)
"""))  # fmt: skip
    live.until("| up", count=2)
    live.send(signal.SIGTERM)
    live.until("| saving", count=2)
    live.send(signal.SIGUSR1)
    live.until("| noted", count=2)
    done = live.end()
    assert done.code == 143
    assert "KILL" not in done.err


def test_a_flood(journey: Journey) -> None:
    live = journey.start("run", "--cpu", "2", journey.script(COUNTS), "SIGUSR1", "SIGUSR2")
    live.until("| up", count=2)
    for _ in range(3000):
        live.send(signal.SIGUSR1)
        live.send(signal.SIGUSR2)
    time.sleep(0.2)
    (journey.folder / "go").touch()
    done = live.end()
    assert done.code == 0
    assert "Traceback" not in done.err
    ends = [line.split() for line in done.out.splitlines() if "| child" in line]
    assert [line[3] for line in ends] == ["None", "None"]
    assert all(int(count) > 0 for line in ends for count in line[4:])


def test_the_agent_gets_it_too(journey: Journey) -> None:
    """From a scheduler that signals every process of a job; each rank gets it once from us."""
    live = journey.start("run", "--cpu", "2", journey.script(COUNTS), "SIGUSR1")
    live.until("| up", count=2)
    [agent] = children_of(live.pid)
    live.send(signal.SIGUSR1)
    os.kill(agent, signal.SIGUSR1)
    live.until("| got SIGUSR1 1", count=2)
    time.sleep(1.2)  # then it is another wish
    os.kill(agent, signal.SIGUSR1)
    live.until("| got SIGUSR1 2", count=2)
    (journey.folder / "go").touch()
    done = live.end()
    assert done.code == 0
    assert done.out.count("| child None 2") == 2


@pytest.mark.parametrize("rank_ends", ["well", "not at all"])
def test_a_checkpoint_can_be_written_with_its_data_loader(journey: Journey, rank_ends: str) -> None:
    """The soft stage is the main process's alone: a child in its group gets nothing before KILL."""
    live = journey.start("run", "--cpu", "2", "--grace", "4", journey.script(SAVES), rank_ends)
    live.until("| up", count=2)
    began = time.monotonic()
    live.send(signal.SIGINT)
    done = live.end(30)
    assert done.code == 130
    assert 3 <= time.monotonic() - began < 20
    assert ("after the grace (KILL)" in done.err) is (rank_ends != "well")
    for rank in range(2):
        assert (journey.folder / f"checkpoint-{rank}").read_text() == "whole"
        assert not (journey.folder / f"loader-{rank}").exists()
    journey.assert_gone()
