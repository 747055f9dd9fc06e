"""What the launcher reads, and what is typed at its terminal, on every way to an agent."""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import signal
import struct
import subprocess
import termios
import time

from ways import LONG, RANKS, Way

WORLD = sum(RANKS)
READ_ALL = """
import hashlib, os, sys
data = sys.stdin.buffer.read()
print(os.environ["RANK"], len(data), hashlib.sha256(data).hexdigest())
"""
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def test_a_large_file_reaches_the_last_rank(way: Way) -> None:
    data = os.urandom(1 << 20) * 100
    (way.folder / "big").write_bytes(data)
    (way.folder / "job.py").write_text(READ_ALL)
    with (way.folder / "big").open("rb") as file:
        code, out, err = way.start("job.py", options=("--stdin-rank", "-1"), stdin=file).end()
    assert code == 0, err
    read = {line.partition(" | ")[2] for line in out.splitlines()}
    nothing = hashlib.sha256(b"").hexdigest()
    assert read == {
        f"{WORLD - 1} {len(data)} {hashlib.sha256(data).hexdigest()}",
        *(f"{rank} 0 {nothing}" for rank in range(WORLD - 1)),
    }


def test_a_rank_that_does_not_read_delays_no_stop(way: Way) -> None:
    (way.folder / "job.py").write_text(SLEEP)
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        launch = way.start("job.py", options=("--stdin-rank", "-1"), stdin=yes.stdout or 0)
        assert yes.stdout
        yes.stdout.close()
        launch.up()
        time.sleep(1.0)  # for all to be full that can be
        begun = time.monotonic()
        launch.process.send_signal(signal.SIGTERM)
        code, _, err = launch.end()
        assert time.monotonic() - begun < 20  # of the grace, 30 s
    assert code == 143
    assert f"ranks 0-{WORLD - 1}: stopped by zlaunch" in err


PDB = """
import os
if os.environ["RANK"] == "4":
    breakpoint()
    print("went on", os.environ["TERM"], *os.get_terminal_size())
"""


def test_pdb_in_the_last_rank(way: Way) -> None:
    (way.folder / "job.py").write_text(PDB)
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    before = termios.tcgetattr(theirs)
    launch = way.start(
        "job.py",
        options=("--debug", "--stdin-rank", "-1"),
        env={"TERM": "vt100"},
        stdin=theirs,
        stdout=theirs,
    )
    seen = until(ours, b"(Pdb) ")
    os.write(ours, b"p 6*7\r")
    seen += until(ours, b"42\r\n(Pdb) ")
    os.write(ours, b"while True: pass\r")
    seen += until(ours, b"pass\r\n")
    time.sleep(0.5)
    os.write(ours, b"\x03")
    seen += until(ours, b"KeyboardInterrupt\r\n(Pdb) ")
    os.write(ours, b"c\r")
    seen += until(ours, b"went on vt100 99 33\r\n")
    code, _, err = launch.end()
    assert code == 0, err
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def until(terminal: int, text: bytes) -> bytes:
    """Read what is shown up to `text`."""
    seen = b""
    while text not in seen:
        assert select.select([terminal], [], [], LONG)[0], seen
        seen += os.read(terminal, 1 << 16)
    return seen
