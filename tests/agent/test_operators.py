"""What an agent makes of a program that builds operators: the program here is a small one."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from test_node import WAIT, Link, Witness, link  # noqa: F401  # a fixture

from zlaunch.run.messages import Exit, Note, Start, Started, Stop
from zlaunch.spec.worker import NodePlan, Operators, WorkerSpec

TELL = """
import json, os, signal, subprocess, sys, time
def tell(say, op="an_op", **more):
    print(json.dumps({"op": op, "state": "", "say": say, **more}), flush=True)
"""


def start(link: Link, program: str, *, within: float = WAIT, ranks: int = 1, **env: str) -> None:  # noqa: F811
    operators = Operators((("an_op", "AnOp"),), (("build_operators.py", TELL + program),), within)
    argv = (sys.executable, "-c", "import os; print('up', os.environ['OWN'])")
    workers = tuple(WorkerSpec(rank, argv, {"OWN": str(rank)}) for rank in range(ranks))
    env["PATH"] = os.environ["PATH"]
    link.send(Start(NodePlan(3, env, workers, operators=operators), WAIT))


def notes(link: Link) -> list[str]:  # noqa: F811
    return [event.text for event in link.events if isinstance(event, Note)]


def until_noted(link: Link, text: str) -> str:  # noqa: F811
    """Wait for a note that begins so, and return the rest of it."""
    link.until(lambda: any(note.startswith(text) for note in notes(link)))
    return next(note.removeprefix(text) for note in notes(link) if note.startswith(text))


def test_ranks_start_when_it_is_over(link: Link) -> None:  # noqa: F811
    start(
        link,
        """
print("a hook of this interpreter says this")
tell("")
tell(f"{sys.argv[1:]} {os.environ['OWN']}")
time.sleep(0.3)
tell("done")
""",
        ranks=2,
    )
    link.until_closed(0, 1)
    assert notes(link) == ["['.', 'an_op=AnOp'] 0", "done"]
    kinds = [type(event) for event in link.events]
    assert max(i for i, k in enumerate(kinds) if k is Note) < kinds.index(Started)
    assert (link.output(0), link.output(1)) == (b"up 0\n", b"up 1\n")


@pytest.mark.parametrize("program", ["sys.exit(3)", "os.kill(os.getpid(), 9)", "1 / 0", "(" * 3])
def test_ranks_start_whatever_became_of_it(link: Link, program: str) -> None:  # noqa: F811
    start(link, program)
    link.until_closed(0)
    assert link.output(0) == b"up 0\n"
    assert notes(link) == []


@pytest.mark.parametrize("left", [True, False])
def test_one_that_is_killed_while_it_builds(link: Link, tmp_path: Path, *, left: bool) -> None:  # noqa: F811
    """As where the kernel wants its memory; what it has started does not go on without it."""
    lock = tmp_path / "lock"
    start(
        link,
        f"""
if {left}:
    open({str(lock)!r}, "w").close()
null = subprocess.DEVNULL
other = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=null, stderr=null)
tell(f"pid {{other.pid}}", lock={str(lock)!r})
time.sleep(0.3)
os.kill(os.getpid(), 9)
""",
    )
    end = Witness(int(until_noted(link, "pid ")))
    link.until_closed(0)
    assert end.sees_the_end()
    told = "the build of an_op ended too early (out of memory?)"
    assert notes(link)[1] == told + f"; every rank will wait for {lock}: remove it" * left
    assert link.output(0) == b"up 0\n"


HANGS = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
other = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL)
tell(f"pids {os.getpid()} {other.pid}")
time.sleep(1000)
"""


def test_one_that_hangs_is_given_up(link: Link) -> None:  # noqa: F811
    """Compilers are in groups of their own, as ninja starts them: they go as well."""
    start(link, HANGS, within=2.0)
    ends = [Witness(int(pid)) for pid in until_noted(link, "pids ").split()]
    link.until_closed(0)
    assert link.output(0) == b"up 0\n"
    assert "an_op: not built within 2 s; the ranks start without" in notes(link)
    assert all(end.sees_the_end() for end in ends)


def test_the_time_is_that_of_one_operator(link: Link) -> None:  # noqa: F811
    start(link, "for i in range(4):\n    tell(str(i))\n    time.sleep(1)", within=3.0)
    link.until_closed(0)
    assert notes(link) == ["0", "1", "2", "3"]


def test_a_stop_lets_it_clear_up(link: Link, tmp_path: Path) -> None:  # noqa: F811
    lock = tmp_path / "lock"
    lock.touch()
    start(
        link,
        """
tell("at work")
try:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tell("ready")
    time.sleep(1000)
finally:
    time.sleep(0.1)
    os.unlink(os.environ["LOCK"])
    tell("this is not told any more")
""",
        ranks=2,
        LOCK=str(lock),
    )
    until_noted(link, "ready")
    link.send(Stop(WAIT))
    link.until_closed(0, 1)
    assert [link.exit(rank) for rank in (0, 1)] == [Exit(signal=signal.SIGTERM)] * 2
    assert not any(isinstance(event, Started) for event in link.events)
    assert notes(link) == ["at work", "ready"]
    assert not lock.exists()


@pytest.mark.parametrize("how", ["stop at once", "the launcher goes", "the agent is killed"])
def test_nothing_survives(link: Link, how: str) -> None:  # noqa: F811
    start(link, HANGS)
    ends = [Witness(int(pid)) for pid in until_noted(link, "pids ").split()]
    if how == "stop at once":
        link.send(Stop(0.0))
        link.until_closed(0)
        assert link.exit(0) == Exit(signal=signal.SIGKILL)
    elif how == "the launcher goes":
        link.send(Stop(0.0))
        link.local.close(WAIT)
    else:
        os.kill(link.agent, signal.SIGKILL)
        ends = ends[:1]  # the other has no mark here
    assert all(end.sees_the_end() for end in ends)


def test_its_directory_goes_with_it(link: Link) -> None:  # noqa: F811
    start(link, "tell('at ' + os.path.dirname(__file__))")
    link.until_closed(0)
    assert not Path(until_noted(link, "at ")).exists()


def test_each_attempt_looks_again(link: Link) -> None:  # noqa: F811
    for _ in range(2):
        start(link, "tell('looked')")
        link.until_closed(0)
        link.events = [event for event in link.events if isinstance(event, Note)]
    assert notes(link) == ["looked", "looked"]
