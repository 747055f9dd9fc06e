"""`--on-exit`: a command of the user's own that is told how the run ended."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from journeys import Journey, eventually

ENDS = "import sys; print('done', flush=True); sys.exit(int(sys.argv[1]))"
STAYS = "import time; print('up', flush=True); time.sleep(600)"
# Writes what it is told to a file, a line a variable.
NOTES = "env | grep ^ZLAUNCH_ >told"
# Calls the module as the launcher does, with a shorter patience.
ALONE = """
import os, sys
from zlaunch.launcher import exit_command
exit_command._GRACE = 0.3
end = exit_command.run_exit_command(sys.argv[1], {}, dict(os.environ), limit=float(sys.argv[2]))
print("ended", end)
"""


def told(journey: Journey) -> dict[str, str]:
    lines = (journey.folder / "told").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_it_runs_once_all_is_over_and_may_ask_for_the_run(journey: Journey) -> None:
    """It reads nothing, what it shows has a tag, and what it leaves behind is ended."""
    command = (
        f"{NOTES}; {sys.executable} -m zlaunch status $ZLAUNCH_RUN_ID; cat; "
        "sleep 600 & setsid sleep 600 & echo bye >&2"
    )
    script = journey.script(ENDS)
    done = journey.zlaunch("run", "--cpu", "2", "--name", "mine", "--on-exit", command, script, "0")
    assert done.code == 0, done.err
    assert f"on-exit | run {journey.latest.name} (mine) finished after" in done.out
    assert "on-exit | bye" in done.out
    assert "--on-exit" not in done.err
    journey.assert_gone()
    run = told(journey)
    assert run["ZLAUNCH_STATE"] == "finished"
    assert run["ZLAUNCH_EXIT_CODE"] == "0"
    assert run["ZLAUNCH_RUN_NAME"] == "mine"
    assert Path(run["ZLAUNCH_RUN_DIR"]) == journey.latest
    assert run["ZLAUNCH_RANKS"] == "2"
    assert "ZLAUNCH_NODE_RANK" not in run


def test_a_failure_is_told_and_the_code_of_the_run_is_kept(journey: Journey) -> None:
    script = journey.script(ENDS)
    options = ("--cpu", "1", "--on-exit", f"{NOTES}; exit 9")
    env = {"ZLAUNCH_NODE_RANK": "0", "MY_TOKEN": "open-sesame"}
    done = journey.zlaunch("run", *options, script, "3", env=env)
    assert done.code == 3
    assert "zlaunch: --on-exit failed: exit code 9" in done.err
    run = told(journey)
    assert (run["ZLAUNCH_STATE"], run["ZLAUNCH_FIRST_FAILURE"]) == ("failed", "0")
    assert run["ZLAUNCH_FIRST_FAILURE_HOST"] not in {"", "localhost"}
    assert "exit code 3" in run["ZLAUNCH_CAUSE"]
    assert "ZLAUNCH_NODE_RANK" not in run
    assert journey.record()["plan"]["on_exit"] == options[-1]


def test_a_stop_of_a_detached_run_is_told_too(journey: Journey) -> None:
    script = journey.script(STAYS)
    command = f"{NOTES}; echo told of it"
    assert journey.zlaunch("run", "--cpu", "1", "-d", "--on-exit", command, script).code == 0
    assert journey.zlaunch("stop", journey.latest.name).code == 0
    run = told(journey)
    assert (run["ZLAUNCH_STATE"], run["ZLAUNCH_EXIT_CODE"]) == ("stopped", "143")
    assert run["ZLAUNCH_CAUSE"] == "stopped by SIGTERM"
    assert "on-exit | told of it\n" in (journey.latest / "console.log").read_text()


def test_ctrl_c_ends_it(journey: Journey) -> None:
    live = journey.start(
        "run", "--cpu", "1", "--on-exit", "echo begun; sleep 600", journey.script(ENDS), "0"
    )
    live.until("on-exit | begun")
    live.send(signal.SIGHUP)  # who hangs up wants to be told
    live.send(signal.SIGINT)
    done = live.end()
    assert done.code == 0
    assert "SIGINT: --on-exit is stopped" in done.err
    assert "--on-exit failed: killed by signal 15 (SIGTERM)" in done.err


@pytest.mark.parametrize(
    ("command", "how"),
    [("sleep 600", "Exit(code=None, signal=15)"), ("trap '' TERM; sleep 600 & wait; wait", "9")],
)
def test_it_has_a_limit_and_then_a_grace(journey: Journey, command: str, how: str) -> None:
    done = journey.start("-c", ALONE, command, "0.3", command=(sys.executable,)).end()
    assert done.code == 0, done.err
    assert "--on-exit takes longer than 0.3 s" in done.err
    assert how in done.out
    assert ("killing it" in done.err) == (how == "9")


def test_what_it_floods_the_screen_with_is_cut(journey: Journey) -> None:
    command = "head -c 3000000 /dev/zero | tr '\\0' 'a' | fold -w 99"
    done = journey.start("-c", ALONE, command, "60", command=(sys.executable,)).end()
    assert 900_000 < len(done.out) < 1_300_000
    assert "more bytes of --on-exit are not shown" in done.err


def test_one_that_cannot_be_is_refused(journey: Journey) -> None:
    done = journey.zlaunch("run", "--cpu", "1", "--on-exit", " ", journey.script(ENDS))
    assert done.code == 2
    assert "--on-exit is empty" in done.err
    assert not journey.runs


def test_a_launcher_killed_meanwhile_takes_it_along(journey: Journey) -> None:
    live = journey.start(
        "run", "--cpu", "1", "--on-exit", "echo begun; exec sleep 600", journey.script(ENDS), "0"
    )
    live.until("on-exit | begun")
    os.kill(live.pid, signal.SIGKILL)
    live.end()
    assert eventually(lambda: not journey.alive())


def test_one_of_a_detached_run_is_ended_from_another_shell(journey: Journey) -> None:
    command = "echo begun; sleep 600"
    done = journey.zlaunch(
        "run", "--cpu", "1", "-d", "--on-exit", command, journey.script(ENDS), "0"
    )
    run_id = done.out.strip()
    console = journey.latest / "console.log"
    assert eventually(lambda: "on-exit | begun" in console.read_text())
    refused = journey.zlaunch("rm", run_id)
    assert refused.code == 2
    assert f"its --on-exit command still runs\n  hint: zlaunch wait {run_id}" in refused.err
    asked = journey.zlaunch("stop", run_id)
    assert (asked.code, "its --on-exit command still runs" in asked.err) == (0, True)
    ended = journey.zlaunch("stop", "--now", run_id)
    assert (ended.code, "its --on-exit command is stopped" in ended.err) == (0, True)
    assert journey.zlaunch("wait", run_id).code == 0
