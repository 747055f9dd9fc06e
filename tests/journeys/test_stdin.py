"""`--stdin-rank`: what zlaunch reads goes to one rank, byte for byte, and holds nothing up."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from journeys import ZLAUNCH, Journey, Live

READ_ALL = """
import hashlib, os, sys
data = sys.stdin.buffer.read()
print(os.environ["RANK"], len(data), hashlib.sha256(data).hexdigest())
"""
ODD = b"\0\x03\x04\x1a\r\n\xff\xfe last line without an end"
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def digest(data: bytes) -> str:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()}"


def big(journey: Journey, size: int = 100 << 20) -> tuple[Path, str]:
    """A large file, and what a rank that has read it prints."""
    block = os.urandom(1 << 20)
    path = journey.folder / "big"
    whole = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(block)
            whole.update(block)
    return path, f"{size} {whole.hexdigest()}"


def piped(journey: Journey, *args: str) -> tuple[Live, int]:
    """Start zlaunch with a pipe for stdin; returns our end of it."""
    reading, writing = os.pipe()
    live = journey.start(*args, stdin=reading)
    os.close(reading)
    return live, writing


@pytest.mark.parametrize(("option", "rank"), [("0", 0), ("1", 1), ("-1", 2), ("-3", 0)])
def test_one_rank_reads_and_the_others_nothing(journey: Journey, option: str, rank: int) -> None:
    live, pipe = piped(
        journey, "run", "--cpu", "3", "--stdin-rank", option, journey.script(READ_ALL)
    )
    os.write(pipe, ODD)
    os.close(pipe)
    done = live.end()
    assert done.code == 0
    for each in range(3):
        assert f"{each} {digest(ODD if each == rank else b'')}" in done.out


def test_nobody_reads_without_the_option(journey: Journey) -> None:
    live, pipe = piped(journey, "run", "--cpu", "2", journey.script(READ_ALL))
    os.write(pipe, ODD)
    done = live.end()
    os.close(pipe)
    assert done.out.count(digest(b"")) == 2


def test_a_large_file_and_its_place_afterwards(journey: Journey) -> None:
    path, told = big(journey)
    with path.open("rb") as file:
        script = journey.script(READ_ALL)
        done = journey.zlaunch("run", "--cpu", "2", "--stdin-rank", "1", script, stdin=file)
        assert f"1 {told}" in done.out, done.text
        assert file.tell() == path.stat().st_size


def test_a_large_pipe(journey: Journey) -> None:
    path, told = big(journey)
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as cat:
        script = journey.script(READ_ALL)
        done = journey.zlaunch("run", "--cpu", "1", "--stdin-rank", "0", script, stdin=cat.stdout)
    assert f"0 {told}" in done.out, done.text


@pytest.mark.parametrize("stdin", ["/dev/null", "closed"])
def test_no_stdin_is_an_empty_one(journey: Journey, stdin: str) -> None:
    redirect = "<&-" if stdin == "closed" else f"<{stdin}"
    command = ("sh", "-c", f'exec "$@" {redirect}', "sh", *ZLAUNCH)
    script = journey.script(READ_ALL)
    done = journey.zlaunch("run", "--cpu", "1", "--stdin-rank", "0", script, command=command)
    assert f"0 {digest(b'')}" in done.out, done.text


def test_what_comes_is_there_at_once(journey: Journey) -> None:
    live, pipe = piped(journey, "run", "--cpu", "1", "--stdin-rank", "0", journey.script("""
import sys
for line in sys.stdin:
    print("got", line.strip(), flush=True)
print("over", flush=True)
"""))  # fmt: skip
    for word in ("one", "two"):
        os.write(pipe, f"{word}\n".encode())
        live.until(f"got {word}")
    os.close(pipe)
    live.until("over")
    assert live.end().code == 0


def test_a_rank_that_does_not_read_holds_up_who_writes_and_nobody_else(journey: Journey) -> None:
    live, pipe = piped(journey, "run", "--cpu", "2", "--stdin-rank", "0", journey.script(SLEEP))
    live.until("up", count=2)
    os.set_blocking(pipe, False)
    taken, deadline = 0, time.monotonic() + 3.0
    while time.monotonic() < deadline:
        try:
            taken += os.write(pipe, bytes(1 << 16))
        except BlockingIOError:
            time.sleep(0.02)
    assert taken < 2 << 20  # our pipe, what is under way, the rank's pipe
    begun = time.monotonic()
    live.send(signal.SIGTERM)
    done = live.end()
    os.close(pipe)
    assert done.code == 143
    assert time.monotonic() - begun < 20  # of the grace, 30 s


@pytest.mark.parametrize("how", ["closes", "ends"])
def test_a_rank_that_wants_no_more(journey: Journey, how: str) -> None:
    """The rest is dropped, and the run goes on as without it."""
    code = """
import os, sys, time
if os.environ["RANK"] == "0":
    print(sys.stdin.readline().strip(), flush=True)
    os.close(0)
    if sys.argv[1] == "ends":
        sys.exit()
while not os.path.exists("go"):
    time.sleep(0.01)
print("done", flush=True)
"""
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        args = ("run", "--cpu", "2", "--stdin-rank", "0", journey.script(code), how)
        live = journey.start(*args, stdin=yes.stdout)
        assert yes.stdout
        yes.stdout.close()
        live.until("0 | y")
        time.sleep(0.3)
        (journey.folder / "go").touch()
        done = live.end()
        assert done.code == 0, done.text
        assert done.err.count("\n") == 2, done.err
        assert yes.wait() == -signal.SIGPIPE  # we have not gone on reading for nobody


def test_a_restart_goes_on_where_it_was(journey: Journey) -> None:
    code = """
import os, sys
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
print("attempt", attempt, repr(sys.stdin.readline()), flush=True)
if attempt == "0":
    sys.exit(1)
print("rest", repr(sys.stdin.read()), flush=True)
if attempt == "1":
    sys.exit(1)
"""
    options = ("--max-restarts", "2", "--healthy-after", "0", "--stdin-rank", "0")
    live, pipe = piped(journey, "run", "--cpu", "1", *options, journey.script(code))
    os.write(pipe, b"first\n")
    live.until("restart 1 of 2")
    os.write(pipe, b"second\nmore\n")
    live.until(r"attempt 1 'second\n'")
    os.close(pipe)
    live.until(r"rest 'more\n'")
    live.until("attempt 2 ''")  # its end is told again
    live.until("rest ''", count=1)
    assert live.end().code == 0


@pytest.mark.parametrize(("rank", "problem"), [("2", "rank 2"), ("-3", "rank -3")])
def test_no_such_rank(journey: Journey, rank: str, problem: str) -> None:
    done = journey.zlaunch("run", "--cpu", "2", "--stdin-rank", rank, journey.script(SLEEP))
    assert done.code == 2
    assert f"--stdin-rank asks for {problem}, but the world size is 2" in done.err
    assert not journey.runs


# A terminal as it is: lines come on Enter


def test_lines_typed_at_a_terminal_and_their_end(journey: Journey) -> None:
    code = 'import os\nprint("hello", input("name? ") if os.environ["RANK"] == "1" else "")\n'
    script = journey.script(code + READ_ALL)
    live, terminal = journey.on_terminal("run", "--cpu", "2", "--stdin-rank", "1", script)
    live.until("name? ")
    os.write(terminal, b"Anx\x7fn\r")
    live.until("hello Ann")
    os.write(terminal, b"abc\rde\x04\x04")
    live.until(f"1 {digest(b'abc' + bytes([10]) + b'de')}")
    done = live.end()
    os.close(terminal)
    assert done.code == 0


def test_interrupt_is_still_the_launcher_s(journey: Journey) -> None:
    script = journey.script(SLEEP)
    live, terminal = journey.on_terminal("run", "--cpu", "2", "--stdin-rank", "0", script)
    live.until("up", count=2)
    os.write(terminal, b"typed\r\x03")
    done = live.end(25)
    os.close(terminal)
    assert done.code == 130
    journey.assert_gone()


# As a shell with job control: the job in the background first, then in front.
JOBS = """
import os, signal, subprocess, sys, termios, time
def in_front(group):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    os.tcsetpgrp(0, group)
job = subprocess.Popen(sys.argv[1:], process_group=0) if sys.version_info >= (3, 11) else (
    subprocess.Popen(sys.argv[1:], preexec_fn=os.setpgrp))
while not os.path.exists("go"):
    time.sleep(0.01)
state = os.waitid(os.P_PID, job.pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
print("job", "goes on" if state is None else state, flush=True)
print("shell read", input(), flush=True)
in_front(job.pid)
print("job is in front", flush=True)
code = job.wait()
in_front(os.getpgrp())
sys.exit(code)
"""


def as_job(journey: Journey, *args: str) -> tuple[Live, int]:
    jobs = str(journey.folder / journey.script(JOBS, "jobs.py"))
    return journey.on_terminal(*args, shell=jobs)


def test_in_the_background_it_reads_nothing_and_is_not_stopped(journey: Journey) -> None:
    script = journey.script("print('up', flush=True)\n" + READ_ALL)
    live, terminal = as_job(journey, "run", "-q", "--cpu", "1", "--stdin-rank", "0", script)
    live.until("up")
    os.write(terminal, b"for the shell\n")
    time.sleep(0.7)  # longer than it looks away
    (journey.folder / "go").touch()
    live.until("job goes on")
    live.until("shell read for the shell")
    live.until("job is in front")
    os.write(terminal, b"for the rank\n")
    os.write(terminal, b"\x04")
    live.until(f"0 {digest(b'for the rank' + bytes([10]))}")
    assert live.end().code == 0
    os.close(terminal)
