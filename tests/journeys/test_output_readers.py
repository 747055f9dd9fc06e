"""Readers of the console that are slow, stall or leave: training does not notice."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest
from journeys import ZLAUNCH, Journey, children_of

LINES = 100_000
FLOOD = """
import os
rank = os.environ["RANK"]
for i in range({lines}):
    print(f"{{rank}}:{{i:06}}:" + "x" * 60)
print("all written", flush=True)
{end}
"""


def whole(journey: Journey, ranks: int, lines: int = LINES) -> bool:
    expected = [
        "".join(f"{rank}:{i:06}:" + "x" * 60 + "\n" for i in range(lines)).encode()
        for rank in range(ranks)
    ]
    return all(journey.log(rank).startswith(expected[rank]) for rank in range(ranks))


def peak_memory(pid: int) -> int:
    """The most that a process ever held, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def test_a_reader_that_stalls(journey: Journey) -> None:
    """Nobody reads the pipe: the run ends, with its own code, in bounded memory."""
    for end, code in (("", 0), ("raise SystemExit(3)", 3)):
        script = journey.script(FLOOD.format(lines=LINES, end=end))
        reader, writer = os.pipe()
        process = journey.popen("run", "--cpu", "2", script, stdout=writer, stderr=writer)
        os.close(writer)
        agents: list[int] = []
        memory = {}
        while process.poll() is None:
            agents = agents or children_of(process.pid)
            for pid in (process.pid, *agents):
                try:
                    memory[pid] = max(memory.get(pid, 0), peak_memory(pid))
                except (OSError, AssertionError):
                    continue
            time.sleep(0.05)
        assert process.returncode == code
        os.close(reader)
        assert max(memory.values()) < 150 << 20
        assert code or whole(journey, 2)  # a rank's failure cuts the other one short
        journey.assert_gone()


@pytest.fixture
def stalled(journey: Journey) -> list[str]:
    """The end of what a reader sees that takes nothing until a rank has failed."""
    script = journey.script(FLOOD.format(lines=LINES, end="raise ValueError('the real reason')"))
    reader, writer = os.pipe()
    process = journey.popen("run", "--cpu", "1", script, stdout=writer, stderr=writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read(1000)
        log = journey.home / "latest" / "logs" / "rank-0.log"
        while b"the real reason" not in log.read_bytes()[-4000:]:
            time.sleep(0.02)
        text += pipe.read()
    assert process.wait(60) == 1
    return text.decode().splitlines()[-40:]


def test_a_reader_that_stalls_and_comes_back(stalled: list[str]) -> None:
    """What it missed is counted; what zlaunch itself has to say is never left out."""
    assert any("lines are not shown" in line for line in stalled)
    assert any("rank 0" in line and "failed first" in line for line in stalled)
    assert "0 | ValueError: the real reason" in stalled
    assert any("failed (exit code 1)" in line for line in stalled)


def test_what_is_missing_is_counted_where_it_is_missing(stalled: list[str]) -> None:
    [gap] = [i for i, line in enumerate(stalled) if "lines are not shown" in line]
    [report] = [i for i, line in enumerate(stalled) if "failed first" in line]
    assert gap < report
    assert "failed (exit code 1)" in stalled[-1]


def test_a_slow_reader_sees_the_end(journey: Journey) -> None:
    """1.6 MB/s at most, such as a terminal behind ssh."""
    script = journey.script(
        FLOOD.format(lines=2 * LINES, end="raise ValueError('the real reason')")
    )
    reader, writer = os.pipe()
    process = journey.popen("run", "--cpu", "1", script, stdout=writer, stderr=writer)
    os.close(writer)
    tail = b""
    while data := os.read(reader, 32 << 10):
        tail = (tail + data)[-4000:]
        time.sleep(0.02)
    os.close(reader)
    assert process.wait(60) == 1
    assert b"0 | ValueError: the real reason" in tail
    assert b"failed (exit code 1)" in tail


def test_a_reader_that_keeps_up_misses_nothing(journey: Journey) -> None:
    script = journey.script(FLOOD.format(lines=LINES, end=""))
    done = journey.zlaunch("run", "-q", "--cpu", "2", script)
    assert done.code == 0
    assert done.out.count("\n") == 2 * (LINES + 1)
    assert done.err == ""


def test_the_console_is_closed_early(journey: Journey) -> None:
    """`zlaunch run ... | head -1`: the training goes on to its own end."""
    for end, code in (("", 0), ("raise SystemExit(3)", 3)):
        script = journey.script(FLOOD.format(lines=20_000, end=end))
        process = journey.popen(
            "run", "--cpu", "1", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout.readline().startswith(b"0 | ")
        process.stdout.close()
        words = process.stderr.read()
        assert process.wait(60) == code
        assert b"Traceback" not in words
        assert whole(journey, 1, 20_000)
        assert journey.record()["exit_code"] == code


def test_both_streams_are_closed_early(journey: Journey) -> None:
    script = journey.script(FLOOD.format(lines=20_000, end=""))
    reader, writer = os.pipe()
    process = journey.popen("run", "--cpu", "2", script, stdout=writer, stderr=writer)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    assert process.wait(60) == 0
    assert whole(journey, 2, 20_000)


def test_a_pipeline_of_the_shell(journey: Journey) -> None:
    script = journey.script(FLOOD.format(lines=5000, end=""))
    line = 'set -o pipefail; "$@" | head -n 1; echo "code $?"'
    ended = subprocess.run(
        ["bash", "-c", line, "bash", *ZLAUNCH, "run", "-q", "--cpu", "1", script],
        cwd=journey.folder, env=journey.env, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert ended.stdout.decode().splitlines()[-1] == "code 0"
    assert whole(journey, 1, 5000)


def test_interrupt_while_the_reader_stalls(journey: Journey) -> None:
    script = journey.script("while True: print('x' * 100)")
    reader, writer = os.pipe()
    process = journey.popen("run", "--cpu", "2", script, stdout=writer, stderr=writer)
    os.close(writer)
    log = journey.home / "latest" / "logs" / "rank-0.log"
    while not log.exists() or log.stat().st_size < 20_000_000:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    os.close(reader)
    journey.assert_gone()


def test_a_terminal_that_is_held(journey: Journey) -> None:
    """Nobody reads the terminal, as after Ctrl-S."""
    ours, theirs = pty.openpty()
    script = journey.script(FLOOD.format(lines=20_000, end=""))
    process = journey.popen("run", "--cpu", "1", script, stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert process.wait(60) == 0
    os.close(ours)
    assert whole(journey, 1, 20_000)


def test_the_disk_of_the_logs_fills_up(journey: Journey) -> None:
    """The run goes on and its own end counts; see also what is asked for before a start."""
    if os.geteuid() != 0:
        pytest.skip("mounts a small disk")
    journey.home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(journey.home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    try:
        for end, code in (("", 0), ("raise ValueError('the real reason')", 1)):
            script = journey.script(FLOOD.format(lines=10_000, end=end))
            done = journey.zlaunch("run", "--cpu", "1", "--console-ranks", "0", script)
            assert done.code == code, done.err
            assert done.err.count("No space left") <= 2
            assert "logs are incomplete" in done.err
            assert "Traceback" not in done.err or code
            assert f"0 | 0:009999:{'x' * 60}" in done.out
            if code:
                assert "0 | ValueError: the real reason" in done.err
            subprocess.run(["rm", "-rf", *map(str, journey.home.iterdir())], check=True)
    finally:
        journey.assert_gone()
        subprocess.run(["umount", str(journey.home)], check=True)
