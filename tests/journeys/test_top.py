"""`zlaunch top` and `--live`: what a run does, while it runs and afterwards."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import struct
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from journeys import LONG, Journey, Live, children_of, eventually

# Rank 1 is at work all the time, rank 0 tells of its training, and both hold memory.
TRAINS = """
import os, pathlib, sys, time
rank = int(os.environ["RANK"])
held = bytearray(os.urandom(1)) * (64 << 20)
step = 0
while not pathlib.Path("go").exists():
    step += 1
    if rank == 0:
        print(f"step {step}/100000 loss={100 / step:.4f}", flush=True)
        time.sleep(0.05)
print("done", flush=True)
sys.exit(int(sys.argv[1]) if rank == 0 else 0)
"""
MIB = 1 << 20


def go(journey: Journey) -> None:
    (journey.folder / "go").touch()


def detached(journey: Journey, *options: str, code: int = 0) -> str:
    script = journey.script(TRAINS)
    done = journey.zlaunch("run", "--cpu", "2", "-d", *options, script, str(code))
    assert done.code == 0, done.err
    return done.out.strip()


def snapshot(journey: Journey) -> dict[str, Any]:
    done = journey.zlaunch("top", "--once", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert isinstance(found, dict)
    return found


def metrics(journey: Journey, source: str) -> list[dict[str, Any]]:
    lines = (journey.latest / "metrics.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["source"] == source]


def settled(journey: Journey) -> dict[str, Any]:
    """A snapshot in which all is known that will be."""
    found: list[dict[str, Any]] = []

    def whole() -> bool:
        found.append(snapshot(journey))
        first, second = found[-1]["ranks"]
        return "loss" in first and second.get("cpu", 0.0) > 0

    assert eventually(whole), found[-1]
    return found[-1]


def test_a_run_from_its_start_to_its_end(journey: Journey) -> None:
    run_id = detached(journey, "--name", "mine", code=3)
    live = settled(journey)
    first, second = live["ranks"]
    assert (live["run"], live["name"], live["state"], live["phase"]) == (
        run_id, "mine", "running", "running",
    )  # fmt: skip
    assert first["rss"] > 64 * MIB
    assert 0 < second["cpu"] < 2.5
    assert (first["device"], first["state"], first["silent"] < LONG) == ("CPU", "running", True)
    assert live["losses"]
    go(journey)
    assert journey.zlaunch("wait", run_id).code == 3
    kept = metrics(journey, "system")
    assert {one["rank"] for one in kept} == {0, 1}
    assert all(one["rss"] > 64 * MIB for one in kept if one["rank"] == 0)
    over = snapshot(journey)
    assert (over["state"], over["exit_code"]) == ("failed", 3)
    assert [rank["code"] for rank in over["ranks"]] == [3, 0]
    assert over["ranks"][0]["loss"] == metrics(journey, "print")[-1]["loss"]
    lines = journey.zlaunch("top", "mine").out.splitlines()
    assert lines[0].startswith(f"run {run_id} (mine) failed (exit code 3), ")
    assert lines[1].startswith("rank 0 (localhost, CPU) exit 3: ")


def test_a_run_whose_launcher_was_killed_is_lost(journey: Journey) -> None:
    detached(journey)
    settled(journey)
    os.kill(journey.record()["launcher_pid"], signal.SIGKILL)
    assert eventually(lambda: snapshot(journey)["state"] == "lost")
    lost = snapshot(journey)
    assert [rank["state"] for rank in lost["ranks"]] == ["lost", "lost"]
    assert lost["ranks"][0]["loss"] > 0
    assert "seconds" not in lost


OUT_OF_MEMORY = """
import os, time
class OutOfMemoryError(RuntimeError):
    __module__ = "torch"
if os.environ["RANK"] == "1":
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
time.sleep(600)
"""


def test_who_ran_out_of_memory_is_marked(journey: Journey) -> None:
    script = journey.script(OUT_OF_MEMORY)
    journey.zlaunch("run", "--cpu", "2", "--grace", "1", script)
    first, second = snapshot(journey)["ranks"]
    assert (first.get("out_of_memory"), second.get("out_of_memory")) == (None, True)


# On a terminal


def resize(live: Live, terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def looker(journey: Journey, *options: str) -> tuple[Live, int, list[Any]]:
    live, terminal = journey.on_terminal("top", *options)
    mode = termios.tcgetattr(terminal)
    live.until("last line")
    return live, terminal, mode


ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"


@pytest.mark.parametrize("how", ["q", "\x03", "TERM"])
def test_the_terminal_is_given_back_however_it_is_left(journey: Journey, how: str) -> None:
    run_id = detached(journey)
    live, terminal, _ = looker(journey)
    assert not termios.tcgetattr(terminal)[3] & termios.ECHO
    resize(live, terminal, 40, 12)
    live.until("\x1b[H", count=4)
    if how == "TERM":
        live.send(signal.SIGTERM)
    else:
        os.write(terminal, how.encode())
    done = live.end()
    assert (done.code, done.text.count(ENTERED), done.text.count(LEFT)) == (0, 1, 1)
    assert done.text.rpartition(LEFT)[2] == ""
    assert termios.tcgetattr(terminal)[3] & termios.ECHO
    go(journey)
    assert journey.zlaunch("wait", run_id).code == 0


def test_it_ends_with_the_run_and_says_how_that_ended(journey: Journey) -> None:
    detached(journey, code=3)
    live, terminal, _ = looker(journey)
    go(journey)
    done = live.end()
    after = done.text.rpartition(LEFT)[2]
    assert done.code == 3
    assert "rank 0 (localhost, CPU) exit 3" in after
    assert "failed (exit code 3)" in after.splitlines()[-1]
    assert termios.tcgetattr(terminal)[3] & termios.ECHO


def woken(pid: int) -> int:
    """How often a process has gone to sleep so far."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(s.split()[1]) for s in status if s.startswith("voluntary_ctxt_switches"))


def test_once_nobody_looks_any_more_nobody_asks(journey: Journey) -> None:
    """The agent sleeps again as soon as whoever looked was killed."""
    script = journey.script("import time; print('up', flush=True); time.sleep(600)")
    run_id = journey.zlaunch("run", "--cpu", "1", "-d", script).out.strip()
    (agent,) = children_of(journey.record()["launcher_pid"])
    live, _, _ = looker(journey)
    before = woken(agent)
    assert eventually(lambda: woken(agent) > before + 2)  # it is asked each second
    live.send(signal.SIGKILL)
    live.end()

    def sleeps() -> bool:
        """In 4 s it would have been asked four times."""
        before = woken(agent)
        time.sleep(4)
        return woken(agent) == before

    assert eventually(sleeps)
    journey.zlaunch("stop", run_id, "--now")


# --live


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_live_shows_the_ranks_below_their_lines(journey: Journey) -> None:
    script = journey.script(TRAINS)
    live, _ = journey.on_terminal("run", "--live", "--cpu", "2", script, "0")
    live.until("RSS GiB")
    live.until("loss 0.")
    go(journey)
    done = live.end()
    text = plain(done.text)
    assert done.code == 0
    assert text.count("0 | done") == text.count("1 | done") == 1
    printed = len(journey.log(0).splitlines()) - 1
    assert len(re.findall(r"0 \| step \d+/100000 loss=[0-9.]+\r?\n", text)) == printed
    assert "finished: 2 ranks" in text[text.rindex("zlaunch: run") :]


def test_live_is_stopped_by_ctrl_c_as_ever(journey: Journey) -> None:
    script = journey.script(TRAINS)
    live, terminal = journey.on_terminal("run", "--live", "--cpu", "2", script, "0")
    mode = termios.tcgetattr(terminal)
    live.until("RSS GiB")
    os.write(terminal, b"\x03")
    done = live.end()
    assert done.code == 130
    assert "was stopped by SIGINT" in done.text
    assert termios.tcgetattr(terminal) == mode


def test_live_without_a_terminal_writes_lines_as_ever(journey: Journey) -> None:
    go(journey)
    done = journey.zlaunch("run", "--live", "--cpu", "2", journey.script(TRAINS), "0")
    assert done.code == 0
    assert sorted(done.out.splitlines()) == ["0 | done", "1 | done"]
    assert "\x1b" not in done.text


def test_live_and_debug_contradict_each_other(journey: Journey) -> None:
    done = journey.zlaunch("run", "--live", "--debug", "--cpu", "2", journey.script(TRAINS), "0")
    assert done.code == 2
    assert "--live and --debug contradict each other" in done.err
