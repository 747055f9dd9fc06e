"""Runs that somebody ends: signals to the launcher, and kill -9 of any part."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from journeys import ZLAUNCH, Journey, Live, children_of, eventually

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = """
import signal, time
for name in ("TERM", "INT", "HUP", "QUIT"):
    signal.signal(getattr(signal, "SIG" + name), signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""
FORKER = """
import subprocess, time
for new in (False, True):
    subprocess.Popen(["sleep", "600"], start_new_session=new)
print("up", flush=True)
time.sleep(600)
"""
STOPS = [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)]


def up(journey: Journey, script: str, *options: str, world: int = 2, **more: object) -> Live:
    """Start a run and wait until all its ranks are up."""
    live = journey.start("run", "--cpu", str(world), *options, journey.script(script), **more)
    live.until("| up", count=world)
    return live


@pytest.mark.parametrize(("name", "code"), STOPS)
@pytest.mark.parametrize("script", [SLEEP, FORKER])
def test_a_signal_to_the_launcher_alone(
    journey: Journey, name: str, code: int, script: str
) -> None:
    live = up(journey, script)
    live.send(getattr(signal, f"SIG{name}"))
    done = live.end(25)
    assert done.code == code
    assert f"SIG{name}: stopping ranks 0-1" in done.err
    assert "Traceback (most recent call last)" not in done.err
    record = journey.record()
    assert (record["state"], record["exit_code"]) == ("stopped", code)
    journey.assert_gone()


@pytest.mark.parametrize(("name", "code"), STOPS)
def test_a_signal_again_and_again_until_the_end(journey: Journey, name: str, code: int) -> None:
    """A Python that leaves would die of one that it caught before."""
    live = up(journey, SLEEP)
    while live.process.poll() is None:
        live.send(getattr(signal, f"SIG{name}"))
        time.sleep(0.001)
    done = live.end()
    assert done.code == code
    assert f"(exit code {code})" in done.err
    journey.assert_gone()


def test_ranks_may_save_and_end_well_when_asked_to_stop(journey: Journey) -> None:
    live = up(journey, """
import signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
""")  # fmt: skip
    live.send(signal.SIGTERM)
    done = live.end()
    assert done.code == 143  # never 0 for a run that was stopped
    assert done.out.count("| saved") == 2


def test_a_second_interrupt_ends_it_at_once(journey: Journey) -> None:
    live = up(journey, STUBBORN, "--grace", "500")
    live.send(signal.SIGINT)
    live.until("again to kill at once")
    time.sleep(0.5)  # a person's pace: two at once are a wrapper's doing
    live.send(signal.SIGINT)
    done = live.end(25)
    assert done.code == 130
    assert "killing ranks 0-1" in done.err
    journey.assert_gone()


def test_two_interrupts_at_once_are_one(journey: Journey) -> None:
    """A wrapper passes on the Ctrl-C that the terminal has sent already."""
    live = up(journey, """
import signal, sys, time
def save(*_):
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
""")  # fmt: skip
    live.send(signal.SIGINT)
    live.send(signal.SIGINT)
    done = live.end()
    assert done.code == 130
    assert done.out.count("| saved") == 2


def test_stubborn_ranks_and_a_short_grace(journey: Journey) -> None:
    live = up(journey, STUBBORN, "--grace", "1")
    live.send(signal.SIGTERM)
    assert live.end(25).code == 143
    journey.assert_gone()


def test_a_grace_of_weeks_can_still_be_stopped(journey: Journey) -> None:
    live = up(journey, SLEEP, "--grace", "1e9")
    live.send(signal.SIGTERM)
    done = live.end(25)
    assert done.code == 143
    assert "Traceback" not in done.err


def test_interrupt_from_the_terminal(journey: Journey) -> None:
    live, terminal = journey.on_terminal("run", "--cpu", "2", journey.script(SLEEP))
    live.until("up", count=2)
    os.write(terminal, b"\x03")
    done = live.end(25)
    os.close(terminal)
    assert done.code == 130
    assert "Traceback" not in done.text
    assert "SIGINT" in done.text
    journey.assert_gone()


def test_a_terminal_that_closes(journey: Journey) -> None:
    live, terminal = journey.on_terminal("run", "--cpu", "2", journey.script(FORKER))
    live.until("up", count=2)
    live.close_streams()
    os.close(terminal)  # the kernel sends HUP
    assert live.process.wait(25) == 129
    journey.assert_gone()


def test_nohup_lives_on(journey: Journey) -> None:
    live = up(journey, """
import pathlib, time
print("up", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
print("done", flush=True)
""", command=("sh", "-c", 'trap "" HUP; exec "$@"', "sh", *ZLAUNCH))  # fmt: skip
    live.send(signal.SIGHUP)
    live.send(signal.SIGHUP)
    (journey.folder / "go").touch()
    done = live.end()
    assert done.code == 0
    assert done.out.count("| done") == 2


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_user_signals_reach_the_ranks_and_the_run_goes_on(journey: Journey, name: str) -> None:
    live = up(journey, f"""
import signal, time
noted = []
signal.signal(signal.SIG{name}, lambda *_: noted.append(print("noted", flush=True)))
print("up", flush=True)
while not noted:
    time.sleep(0.01)
print("goes on", flush=True)
""")  # fmt: skip
    live.send(getattr(signal, f"SIG{name}"))
    done = live.end()
    assert done.code == 0
    assert sorted(done.out.splitlines()[2:]) == [
        "0 | goes on",
        "0 | noted",
        "1 | goes on",
        "1 | noted",
    ]


@pytest.mark.parametrize("script", [SLEEP, FORKER])
def test_the_launcher_is_killed(journey: Journey, script: str) -> None:
    live = up(journey, script)
    live.send(signal.SIGKILL)
    assert live.end().code == -signal.SIGKILL
    journey.assert_gone(20)


def test_the_launcher_is_killed_and_ranks_are_stubborn(journey: Journey) -> None:
    live = up(journey, STUBBORN, "--grace", "1")
    live.send(signal.SIGKILL)
    live.end()
    journey.assert_gone(15)  # the grace that was asked for counts here too


@pytest.mark.parametrize("script", [SLEEP, STUBBORN, FORKER])
def test_the_agent_is_killed(journey: Journey, script: str) -> None:
    live = up(journey, script)
    [agent] = children_of(live.pid)
    os.kill(agent, signal.SIGKILL)
    done = live.end(25)
    assert done.code == 125
    assert "agent" in done.err
    assert "Traceback" not in done.err
    assert journey.record()["state"] == "failed"
    journey.assert_gone(10)


def test_launcher_and_agent_are_killed(journey: Journey) -> None:
    live = up(journey, STUBBORN)
    [agent] = children_of(live.pid)
    live.send(signal.SIGSTOP)  # neither sees the other go
    os.kill(agent, signal.SIGKILL)
    live.send(signal.SIGKILL)
    live.end()
    journey.assert_gone(20)


def test_the_agent_is_asked_to_end(journey: Journey) -> None:
    """By a scheduler that signals every process of a job."""
    live = up(journey, SLEEP)
    [agent] = children_of(live.pid)
    os.kill(agent, signal.SIGTERM)
    done = live.end(25)
    assert done.code not in (0, 1, 2)
    journey.assert_gone()


def test_a_rank_is_killed(journey: Journey) -> None:
    live = up(journey, FORKER)
    [agent] = children_of(live.pid)
    rank = min(children_of(agent))
    os.kill(rank, signal.SIGKILL)
    done = live.end(25)
    assert done.code == 137
    assert f"pid {rank}" in done.err
    assert "SIGKILL" in done.err
    journey.assert_gone()


def test_a_stop_at_any_moment_of_the_start(journey: Journey) -> None:
    """Before the handlers are there, while the agent starts, while ranks are forked."""
    script = journey.script(SLEEP)
    for tenth in range(8):
        live = journey.start("run", "--cpu", "2", script)
        time.sleep(tenth * 0.05)
        live.send(signal.SIGTERM)
        done = live.end(25)
        assert done.code in (143, -signal.SIGTERM), done.text
        assert "Traceback" not in done.text
    journey.assert_gone()


def test_an_agent_that_does_not_answer(journey: Journey) -> None:
    live = up(journey, SLEEP, "--grace", "0")
    [agent] = children_of(live.pid)
    os.kill(agent, signal.SIGSTOP)
    live.send(signal.SIGTERM)
    done = live.end(40)
    assert done.code == 143
    journey.assert_gone()


def test_a_run_beside_is_not_touched(journey: Journey) -> None:
    other = journey.popen("-c", SLEEP, command=(sys.executable,), stdout=-3)
    live = up(journey, FORKER)
    live.send(signal.SIGTERM)
    live.end(25)
    assert eventually(lambda: set(journey.alive()) == {other.pid}, 10)
    assert other.poll() is None
    other.terminate()
    other.wait()


BLOCKED = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM, signal.SIGINT])
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("stops", [False, True])
def test_signals_that_somebody_has_left_blocked(journey: Journey, stops: bool) -> None:
    """Supervisors that wait for signals start programs so."""
    script = journey.script(f"import time\nprint('up')\ntime.sleep({60 if stops else 0})")
    command = (sys.executable, "-c", BLOCKED, *ZLAUNCH)
    live = journey.start("run", "--cpu", "2", script, command=command)
    if stops:
        live.until("up", count=2)
        live.send(signal.SIGTERM)
    assert live.end().code == (143 if stops else 0)
    journey.assert_gone()
