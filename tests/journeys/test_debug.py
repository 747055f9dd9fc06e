"""`--debug`: one rank has the terminal, with pdb in it, and the terminal is given back."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from journeys import Journey, Live, children_of, eventually

PDB = """
import os, sys, time
x = 41
if os.environ["RANK"] == sys.argv[1]:
    breakpoint()
    print("x is", x, flush=True)
elif len(sys.argv) > 2:
    time.sleep(600)
"""
# A shell with job control and one job: `fg` brings it to the front.
SHELL = """
import os, signal, subprocess, sys
def in_front(group):
    os.tcsetpgrp(0, group)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen(
    sys.argv[1:],
    preexec_fn=lambda: (os.setpgrp(), signal.signal(signal.SIGTTOU, signal.SIG_DFL)),
)
if "BACKGROUND" not in os.environ:
    in_front(job.pid)
    os.waitid(os.P_PID, job.pid, os.WSTOPPED | os.WNOWAIT)
    in_front(os.getpgrp())
    print("shell: stopped", flush=True)
input()
in_front(job.pid)
print("shell: in front", flush=True)
os.kill(job.pid, signal.SIGCONT)
code = job.wait()
in_front(os.getpgrp())
sys.exit(code)
"""
DEBUG = ("run", "-q", "--cpu", "2", "--debug")


class Desk:
    """zlaunch on a terminal at which somebody types."""

    def __init__(self, live: Live, terminal: int, mode: list[Any]) -> None:
        self.live, self.terminal, self.before = live, terminal, mode

    def type(self, keys: str, then: str = "", count: int = 1) -> None:
        """Type, and wait until `then` has come up so many times behind it."""
        before = self.live.text.count(then) if then else 0
        os.write(self.terminal, keys.encode())
        if then:
            self.live.until(then, count=before + count)

    @property
    def mode(self) -> list[Any]:
        return termios.tcgetattr(self.terminal)

    @property
    def raw(self) -> bool:
        return not self.mode[3] & termios.ICANON

    def end(self, code: int) -> str:
        """The run ends so, and the terminal is as it was."""
        done = self.live.end(25)
        assert done.code == code, done.text
        assert self.mode == self.before
        return done.text

    @property
    def rows(self) -> list[str]:
        """What was shown, without colours and the like, cut at each line's end."""
        plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", self.live.text)
        return plain.split("\r\n")


@contextmanager
def desk(journey: Journey, *args: str, **options: Any) -> Iterator[Desk]:
    ours, theirs = os.openpty()
    mode = termios.tcgetattr(theirs)
    os.close(theirs)
    os.close(ours)
    live, terminal = journey.on_terminal(*args, **options)
    at = Desk(live, terminal, mode)
    try:
        yield at
    finally:
        os.close(at.terminal)


@contextmanager
def at_pdb(journey: Journey, *args: str, rank: str = "0", more: str = "") -> Iterator[Desk]:
    words = (*DEBUG, *args, journey.script(PDB), rank, *([more] if more else []))
    with desk(journey, *words) as at:
        at.live.until("(Pdb) ")
        assert at.raw
        yield at


def test_pdb_as_at_a_terminal_of_its_own(journey: Journey) -> None:
    with at_pdb(journey) as at:
        at.type("p 1+1\r", "2\r\n(Pdb) ")
        at.type("n\r", "x is 41\r\n")
        at.live.until("(Pdb) ", count=3)
        at.type("\x1b[A\x1b[A", "p 1+1")  # what was typed before the last
        at.type("0\r", "11\r\n(Pdb) ")
        at.type(
            "p lexn('abc')\x01\x1b[C\x1b[C\x1b[C\x1b[C\x1b[3~\r", "3\r\n(Pdb) "
        )  # keys that move and erase
        at.type("p os.get_inher\t(0)\r", "True\r\n(Pdb) ")
        at.type("while True: pass\r")
        time.sleep(0.5)
        at.type("\x03", "KeyboardInterrupt")
        at.type("c\r")
        at.end(0)
    assert b"(Pdb) p 1+1\r\n2\r\n" in journey.log(0)


def test_another_rank_than_the_first(journey: Journey) -> None:
    with at_pdb(journey, "--stdin-rank", "-1", rank="1") as at:
        at.type("p os.environ['RANK']\r", "'1'\r\n")
        at.type("c\r", "x is 41")
        at.end(0)


def test_a_breakpoint_in_a_rank_that_reads_nothing_ends_it(journey: Journey) -> None:
    with desk(journey, *DEBUG, journey.script(PDB), "1") as at:
        assert "BdbQuit" in at.end(1)


def test_what_is_printed_is_there_at_once_and_as_it_is(journey: Journey) -> None:
    code = r"""
import os, sys, time
if os.environ["RANK"] == "0":
    os.write(1, b"\x1b[31mred\x1b[m no newline \x1b[5;7H\xff")
    input()
"""
    with desk(journey, *DEBUG, journey.script(code)) as at:
        assert eventually(lambda: b"no newline \x1b[5;7H\xff" in at.live.seen[0])
        assert "0 |" not in at.live.text
        at.type("\r")
        at.end(0)


def test_lines_of_others_come_above_the_prompt(journey: Journey) -> None:
    code = """
import os, time
if os.environ["RANK"] == "0":
    input("prompt> ")
else:
    while not os.path.exists("go"):
        time.sleep(0.01)
    os.write(1, b"one\\ntwo\\rthree\\nunfinished")
    time.sleep(600)
"""
    with desk(journey, *DEBUG, journey.script(code)) as at:
        at.live.until("prompt> ")
        at.type("typ", "typ")
        (journey.folder / "go").touch()
        at.live.until("three")
        at.live.until("prompt> typ", count=2)
        at.type("ed\r")
        assert eventually(lambda: not at.raw)  # the rank is done, and the others are ours again
        at.type("\x03")
        at.end(130)
        assert at.rows[0] == "prompt> typ\r1 | one"
        assert at.rows[1:3] == ["1 | three", "prompt> typed"]


def test_words_of_ours_have_line_ends_in_raw_mode(journey: Journey) -> None:
    with desk(journey, "run", "--cpu", "2", "--debug", journey.script(PDB), "0", "stay") as at:
        at.live.until("(Pdb) ")
        assert "rank 0 has this terminal; Ctrl-\\ ends the run; ranks that wait" in at.live.text
        at.live.send(signal.SIGTERM)
        text = at.end(143)
    assert not re.search(r"(?<!\r)\n", text)
    assert "SIGTERM: stopping ranks 0-1; again to kill at once\x1b[0m\r\n" in text


# The terminal's size


def resize(at: Desk, rows: int, columns: int) -> None:
    fcntl.ioctl(at.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_the_window_s_size_at_first_and_later(journey: Journey) -> None:
    with at_pdb(journey) as at:
        size = "p tuple(os.get_terminal_size()), os.environ['TERM']\r"
        at.type(size, "((100, 40), 'xterm')")
        resize(at, 22, 66)
        time.sleep(0.3)
        at.type(size, "((66, 22), 'xterm')")
        at.type("c\r")
        at.end(0)


# However it ends, the terminal is given back


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_given_back_after_a_signal(journey: Journey, signum: int, code: int) -> None:
    with at_pdb(journey, more="stay") as at:
        at.live.send(signum)
        at.end(code)
    journey.assert_gone()


def test_a_terminal_that_closes(journey: Journey) -> None:
    with at_pdb(journey, more="stay") as at:
        at.live.close_streams()
        os.close(at.terminal)  # the kernel sends HUP and CONT
        assert at.live.process.wait(25) == 129
        journey.assert_gone()
        at.terminal = os.open(os.devnull, os.O_RDWR)


def test_given_back_after_a_failure(journey: Journey) -> None:
    with at_pdb(journey) as at:
        at.type("import os; os._exit(7)\r")
        text = at.end(7)
    assert "rank 0 (pid" in text
    assert "failed first" in text


def test_given_back_when_another_rank_fails(journey: Journey) -> None:
    code = """
import os, sys, time
if os.environ["RANK"] == "0":
    breakpoint()
while not os.path.exists("go"):
    time.sleep(0.01)
sys.exit("the reason")
"""
    with desk(journey, *DEBUG, journey.script(code)) as at:
        at.live.until("(Pdb) ")
        (journey.folder / "go").touch()
        assert "the reason" in at.end(1)


def test_the_way_out(journey: Journey) -> None:
    """Ctrl-\\ once stops the run, and twice kills who does not obey."""
    code = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGQUIT, signal.SIG_IGN)
while True:
    try:
        input("stubborn> ")
    except KeyboardInterrupt:
        print("no")
"""
    with desk(journey, "run", "--cpu", "1", "--debug", journey.script(code)) as at:
        at.live.until("stubborn> ")
        time.sleep(0.5)  # Python does not see it where it comes right before the read
        at.type("\x03", "no")
        at.type("\x1c", "SIGQUIT: stopping rank 0")
        time.sleep(0.5)
        at.type("\x1c")
        at.end(131)
    journey.assert_gone()


def test_given_back_when_the_agent_is_killed(journey: Journey) -> None:
    with at_pdb(journey) as at:
        (agent,) = children_of(at.live.pid)
        os.kill(agent, signal.SIGKILL)
        at.end(125)
    journey.assert_gone()


def test_stopped_by_a_shell_and_continued(journey: Journey) -> None:
    shell = str(journey.folder / journey.script(SHELL, "shell.py"))
    with desk(journey, *DEBUG, journey.script(PDB), "0", shell=shell) as at:
        at.live.until("(Pdb) ")
        at.type("p 6*", "p 6*")
        (job,) = children_of(at.live.pid)
        os.kill(job, signal.SIGTSTP)
        at.live.until("shell: stopped")
        assert at.mode == at.before
        at.type("fg\r", "p 6*")  # the line is there again
        assert eventually(lambda: at.raw)
        at.type("7\r", "42")
        at.type("c\r")
        at.end(0)


def test_held_and_the_mode_changed_meanwhile(journey: Journey) -> None:
    with at_pdb(journey) as at:
        os.kill(at.live.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, at.live.pid, os.WSTOPPED | os.WNOWAIT)
        termios.tcsetattr(at.terminal, termios.TCSANOW, at.before)
        os.kill(at.live.pid, signal.SIGCONT)
        assert eventually(lambda: at.raw)
        at.type("p 6*7\r", "42")
        at.type("c\r")
        at.end(0)


def test_from_the_background_to_the_front(journey: Journey) -> None:
    """Nothing of the shell's terminal is touched before it is ours."""
    shell = str(journey.folder / journey.script(SHELL, "shell.py"))
    env = {"BACKGROUND": "1"}
    with desk(journey, *DEBUG, journey.script(PDB), "0", shell=shell, env=env) as at:
        at.live.until("(Pdb) ")  # with a tag
        time.sleep(0.7)
        assert at.mode == at.before
        at.type("fg\r", "in front")
        assert eventually(lambda: at.raw)
        at.type("p 6*7\r", "42")
        at.type("c\r", "x is 41")
        at.end(0)


# Where it cannot be


def test_it_needs_a_terminal(journey: Journey) -> None:
    done = journey.zlaunch("run", "--cpu", "2", "--debug", journey.script(PDB), "0")
    assert done.code == 2
    assert "--debug needs a terminal, and stdin is none" in done.err
    assert "--stdin-rank 0 takes a pipe" in done.err
    assert not journey.runs


def test_it_is_for_one_attempt(journey: Journey) -> None:
    with desk(journey, *DEBUG, "--max-restarts", "1", journey.script(PDB), "0") as at:
        assert "--debug and --max-restarts contradict each other" in at.end(2)


def test_whoever_thinks_is_not_ended_as_a_hang(journey: Journey) -> None:
    hang = ("--hang-timeout", "5", "--on-hang", "stop")
    with desk(journey, *DEBUG, *hang, journey.script(PDB), "0") as at:
        assert "--debug and --on-hang stop contradict each other" in at.end(2)
