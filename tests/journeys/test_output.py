"""What ranks write: tagged and whole on the console, byte for byte in the files."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from journeys import PROBE, Journey

FLOOD = """
import os
rank = os.environ["RANK"]
for i in range({lines}):
    print(f"{{rank}}:{{i:06}}:" + "x" * 60)
"""


def test_four_ranks_write_at_once(journey: Journey) -> None:
    script = journey.script(FLOOD.format(lines=20_000))
    done = journey.zlaunch("run", "--cpu", "4", script)
    assert done.code == 0
    shown: dict[str, list[str]] = {str(rank): [] for rank in range(4)}
    for line in done.out.splitlines():
        rank, bar, text = line.partition(" | ")
        assert bar
        shown[rank].append(text)
    for rank in range(4):
        lines = [f"{rank}:{i:06}:" + "x" * 60 for i in range(20_000)]
        assert shown[str(rank)] == lines  # none lost, none torn, in order
        assert journey.log(rank) == "".join(f"{line}\n" for line in lines).encode()


def test_pieces_of_lines_are_put_together(journey: Journey) -> None:
    """Ranks that write a few bytes at a time do not cut into each other's lines."""
    script = journey.script("""
import os
for i in range(300):
    for piece in (f"rank {os.environ['RANK']} ", f"piece {i} ", "end\\n"):
        os.write(1 + i % 2, piece.encode())
""")
    done = journey.zlaunch("run", "-q", "--cpu", "4", script)
    lines = [f"{rank} | rank {rank} piece {i} end" for rank in range(4) for i in range(300)]
    assert sorted(done.out.splitlines()) == sorted(lines)


def test_stdout_and_stderr_keep_their_order(journey: Journey) -> None:
    script = journey.script("""
import os
for i in range(1000):
    os.write(1 + i % 2, f"{i}\\n".encode())
""")
    done = journey.zlaunch("run", "-q", "--cpu", "1", script)
    assert done.out == "".join(f"0 | {i}\n" for i in range(1000))


def test_one_line_of_ten_megabytes(journey: Journey) -> None:
    script = journey.script("print('before'); print('y' * 10_000_000); print('after')")
    done = journey.zlaunch("run", "--cpu", "1", script)
    assert done.code == 0
    assert journey.log() == b"before\n" + b"y" * 10_000_000 + b"\nafter\n"
    lines = done.out.splitlines()
    assert (lines[0], lines[-1]) == ("0 | before", "0 | after")
    assert len(lines) == 3
    assert lines[1].startswith("0 | yyyy")
    assert len(lines[1]) < 10_000_000
    assert "10,000,000 bytes" in lines[1]


def test_ten_megabytes_without_an_end(journey: Journey) -> None:
    script = journey.script("import sys; sys.stdout.write('z' * 10_000_000); sys.exit(1)")
    done = journey.zlaunch("run", "--cpu", "1", script)
    assert done.code == 1
    assert journey.log() == b"z" * 10_000_000
    assert "10,000,000 bytes" in done.out
    assert len(done.text) < 1_000_000


ODD = b"caf\xe9 \xff\xfe\nnull \0 byte\nright: gr\xc3\xb6\xc3\x9fe\n"
ODD += b"\xe6\x95\xb0 cut \xe6\x95\n\x1b[2Jcleared\nlast"


def test_bytes_that_are_no_text(journey: Journey) -> None:
    script = journey.script(f"import os; os.write(1, {ODD!r})")
    done = journey.zlaunch("run", "--cpu", "1", script)
    assert done.code == 0
    assert journey.log() == ODD
    out = done.stdout.decode()  # what is shown is text, always
    lines = out.split("\n")
    assert "caf\\xe9 \\xff\\xfe" in lines[0]
    assert "größe" in out
    assert "数 cut \\xe6\\x95" in out
    assert "\x1b[2J" not in out  # one rank does not clear the screen of all
    assert lines[-2:] == ["0 | last", ""]


def test_the_last_line_without_a_newline(journey: Journey) -> None:
    script = journey.script(
        "import os; os.write(1, b'one\\ntwo of ' + os.environ['RANK'].encode())"
    )
    done = journey.zlaunch("run", "-q", "--cpu", "2", script)
    lines = [f"{rank} | {text}" for rank in (0, 1) for text in ("one", f"two of {rank}")]
    assert sorted(done.out.splitlines()) == sorted(lines)
    assert done.out.endswith("\n")
    assert journey.log(1) == b"one\ntwo of 1"


PROGRESS = """
import os, sys, time, pathlib
print("begin", flush=True)
for i in range({states}):
    sys.stdout.write(f"\\r{{i * 100 // {states}:3}}% step {{i}}")
    sys.stdout.flush()
    if i == {states} - 1:
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
sys.stdout.write("\\r100% done\\n")
print("end", flush=True)
"""


def test_progress_on_a_pipe_is_a_few_lines(journey: Journey) -> None:
    live = journey.start("run", "-q", "--cpu", "1", journey.script(PROGRESS.format(states=1000)))
    live.until("0 | begin")
    live.until("% step")  # a state is shown long before the line ends
    (journey.folder / "go").touch()
    done = live.end()
    lines = done.out.splitlines()
    assert lines[0] == "0 | begin"
    assert lines[-2:] == ["0 | 100% done", "0 | end"]
    assert len(lines) <= 6
    assert not any("\r" in line for line in done.out.split("\n"))
    assert journey.log().count(b"\r") == 1001  # the file has every byte


def test_progress_on_a_terminal_is_in_place(journey: Journey) -> None:
    script = journey.script(PROGRESS.format(states=1000))
    live, terminal = journey.on_terminal("run", "-q", "--cpu", "1", script)
    live.until("step 999")  # the newest state, while the line goes on
    before = live.text.count("\n")
    assert before <= 2
    (journey.folder / "go").touch()
    done = live.end()
    os.close(terminal)
    assert done.code == 0
    assert done.out.count("\n") <= 4
    assert screen(done.stdout) == ["0 | begin", "0 | 100% done", "0 | end"]


def screen(data: bytes) -> list[str]:
    """What a terminal shows after `data`, for the few sequences that zlaunch uses."""
    lines = [""]
    text = re.sub(r"\x1b\[(?:[0-9;]*m|\?7[lh])", "", data.decode())
    for part in re.split(r"(\r\n|\r\x1b\[K|\r)", text):
        if part == "\r\n":
            lines.append("")
        elif part.startswith("\r"):
            lines[-1] = ""
        else:
            lines[-1] += part
    return [line for line in lines if line]


def test_two_progress_bars_and_lines_between(journey: Journey) -> None:
    script = journey.script("""
import os, sys, time
rank = os.environ["RANK"]
for i in range(40):
    sys.stderr.write(f"\\r{i} of rank {rank}")
    if i % 10 == 9:
        sys.stderr.write(f"\\nline {i} of rank {rank}\\n")
    time.sleep(0.01)
""")
    live, terminal = journey.on_terminal("run", "-q", "--cpu", "2", script)
    done = live.end()
    os.close(terminal)
    seen = screen(done.stdout)
    for rank in (0, 1):
        for i in (9, 19, 29, 39):
            assert f"{rank} | {i} of rank {rank}" in seen
            assert f"{rank} | line {i} of rank {rank}" in seen
    assert len(seen) == 16


def test_colour_is_for_terminals(journey: Journey) -> None:
    script = journey.script("print('plain')")
    for env, coloured in (
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": ""}, True),  # as no-color.org has it: only when not empty
    ):
        live, terminal = journey.on_terminal("run", "--cpu", "2", script, env=env)
        done = live.end()
        os.close(terminal)
        assert (re.search(r"\x1b\[\d", done.out) is not None) is coloured, env
        assert "plain" in done.out
    piped = journey.zlaunch("run", "--cpu", "2", script)
    assert "\x1b" not in piped.text
    forced = journey.zlaunch("run", "--cpu", "2", script, env={"FORCE_COLOR": "1"})
    assert "\x1b[" in forced.out
    both = journey.zlaunch("run", "--cpu", "2", script, env={"FORCE_COLOR": "1", "NO_COLOR": "1"})
    assert "\x1b" not in both.text


def test_ranks_have_no_terminal(journey: Journey) -> None:
    live, terminal = journey.on_terminal("run", "-q", "--cpu", "1", journey.script(PROBE))
    live.end()
    os.close(terminal)
    assert journey.reports()[0]["terminals"] == [False] * 3


def test_into_a_file(journey: Journey) -> None:
    script = journey.script(FLOOD.format(lines=1000))
    for mode in ("wb", "ab"):
        target = journey.folder / "out.txt"
        with target.open(mode) as file:
            process = journey.popen("run", "--cpu", "2", script, stdout=file, stderr=file)
            assert process.wait(60) == 0
    lines = target.read_text().splitlines()
    assert sum(line.startswith(("0 | ", "1 | ")) for line in lines) == 4000
    assert sum(line.startswith("zlaunch: ") for line in lines) == len(lines) - 4000


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(journey: Journey, redirection: str) -> None:
    script = journey.script("print('fine'); raise SystemExit(3)")
    shell = f'exec "$@" {redirection}'
    line = (sys.executable, "-m", "zlaunch", "run", "--cpu", "1", script)
    process = journey.popen(*line, command=("sh", "-c", shell, "sh"))
    assert process.wait(60) == 3
    assert journey.log() == b"fine\n"


def test_a_full_device(journey: Journey) -> None:
    with Path("/dev/full").open("wb") as full:
        process = journey.popen(
            "run", "--cpu", "2", journey.script(FLOOD.format(lines=1000)), stdout=full, stderr=full
        )
        assert process.wait(60) == 0
    assert journey.log(1).count(b"\n") == 1000


def test_a_shared_socket_is_left_as_it_was(journey: Journey) -> None:
    """Standard output of services; whoever shares it would get EAGAIN afterwards."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        script = journey.script("print('fine')")
        process = journey.popen(
            "run", "--cpu", "1", script, stdout=theirs, stderr=subprocess.DEVNULL
        )
        assert process.wait(60) == 0
        assert ours.recv(100) == b"0 | fine\n"
        assert os.get_blocking(theirs.fileno())


def test_progress_ends_with_a_failing_rank(journey: Journey) -> None:
    script = journey.script(
        "import sys; sys.stdout.write('\\r 10%\\r 20%'); sys.stdout.flush(); 1 / 0"
    )
    live, terminal = journey.on_terminal("run", "--cpu", "1", script)
    done = live.end()
    os.close(terminal)
    seen = screen(done.stdout)
    assert done.code == 1
    assert any(line.endswith("ZeroDivisionError: division by zero") for line in seen)
