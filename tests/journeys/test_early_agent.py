"""The agent that begins before it is known what is to be done: used, or gone without a trace."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from journeys import ZLAUNCH, Journey, eventually

AGENT = b"zlaunch.agent.node"
# Whatever the command leaves behind becomes a child of this one, which tells of it and is waited
# for by nobody else.
ADOPTING = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
children = open("/proc/self/task/%d/children" % os.getpid()).read().split()
print(done.returncode, len(children), done.stderr)
"""
DIES = """
import os
from zlaunch.backends import early_agent
early_agent.begin()
print(early_agent._begun[0]._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def agents_below(pid: int) -> list[int]:
    """The agents among the descendants of a process."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child)] if AGENT in Path(f"/proc/{child}/cmdline").read_bytes() else []
        found += agents_below(int(child))
    return found


def has_ended(pid: int) -> bool:
    """Whoever adopted it may not have reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def ended_and_left(journey: Journey, *words: str) -> list[str]:
    """The command's exit code, and how many processes it has left."""
    done = subprocess.run(
        [sys.executable, "-c", ADOPTING, *ZLAUNCH, "run", *words],
        cwd=journey.folder, env=journey.env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split(maxsplit=2)[:2]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--no-such-option", "x.py"), 2),
        (("--cpu", "0", "x.py"), 2),
        (("no_such_script.py",), 2),
        (("--help",), 0),
    ],
)
def test_what_starts_nothing_leaves_nothing(
    journey: Journey, words: tuple[str, ...], code: int
) -> None:
    assert ended_and_left(journey, *words) == [str(code), "0"]


def test_a_shown_plan_leaves_nothing(journey: Journey) -> None:
    words = ("--dry-run", "--cpu", "2", journey.script("pass"))
    assert ended_and_left(journey, *words) == ["0", "0"]


def test_it_ends_with_a_launcher_that_is_killed() -> None:
    begun = subprocess.run(
        [sys.executable, "-c", DIES], capture_output=True, text=True, check=False
    )
    assert begun.returncode == -signal.SIGKILL
    assert eventually(lambda: has_ended(int(begun.stdout)))


def test_it_is_the_agent_of_the_run(journey: Journey) -> None:
    script = journey.script("import os, sys\nprint('parent', os.getppid())\nsys.stdin.read()")
    live = journey.start("run", "--cpu", "1", "--stdin-rank", "0", script, stdin=subprocess.PIPE)
    live.until("parent ")
    agents = agents_below(live.pid)
    assert [str(pid) for pid in agents] == [live.text.split("parent ")[1].split()[0]]
    assert b"hashlib" in Path(f"/proc/{agents[0]}/cmdline").read_bytes()
    assert live.process.stdin is not None
    live.process.stdin.close()
    assert live.end().code == 0


def test_a_detached_run_has_one_of_its_own(journey: Journey) -> None:
    script = journey.script("import os, time\nprint('parent', os.getppid())\ntime.sleep(600)")
    assert journey.zlaunch("run", "--detach", "--cpu", "1", script).code == 0
    assert eventually(lambda: b"parent" in journey.log())
    agent = int(journey.log().split()[1])
    launcher = int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1])
    assert agents_below(launcher) == [agent]
    assert b"hashlib" not in Path(f"/proc/{agent}/cmdline").read_bytes()
    assert journey.zlaunch("stop", "--now", journey.latest.name).code == 0
    journey.assert_gone()


# Ctrl-C arrives while a class is being made, which Python 3.11 turns into an error of its own.
INTERRUPTED = """
import sys
from zlaunch.backends import early_agent
from zlaunch.cli.main import main
class Field:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt
early_agent.begin = lambda: type("Made", (), {"field": Field()})
sys.argv[1:] = ["run", "job.py"]
main()
"""


INTERRUPTED_LATER = """
import sys
import zlaunch.cli.start
from zlaunch.cli.main import main
def interrupted(*_):
    raise KeyboardInterrupt
zlaunch.cli.start.RunStore = interrupted
sys.argv[1:] = ["run", "job.py"]
main()
"""


@pytest.mark.parametrize("code", [INTERRUPTED, INTERRUPTED_LATER])
def test_an_interrupt_before_anything_is_started_is_said(code: str) -> None:
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "zlaunch: error: interrupted\n")
