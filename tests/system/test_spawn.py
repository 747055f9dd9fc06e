"""Workers are real processes: how they start, what they get, and that they end."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zlaunch.run.messages import Exit
from zlaunch.system.spawn import Process
from zlaunch.system.stdio import enlarge_pipe

ROOT = Path(__file__).parents[2]
ENV = {"PATH": os.environ["PATH"]}
WAIT = 60  # seconds, for what should take none


def python(code: str, *args: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code, *args]


def start(argv: list[str], env: dict[str, str] | None = None, cwd: str | None = None) -> Process:
    return Process(argv, ENV if env is None else env, cwd)


def ended(process: Process) -> Exit:
    """Wait for the main process, unreaped."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    end = process.poll()
    assert end is not None
    return end


def read_all(process: Process) -> bytes:
    """What is written until nobody holds the pipe any more."""
    data = b""
    while True:
        assert select.select([process.fd], [], [], WAIT)[0], f"the pipe is still held: {data!r}"
        chunk = os.read(process.fd, 1 << 16)
        if not chunk:
            return data
        data += chunk


def read_line(process: Process) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        assert select.select([process.fd], [], [], WAIT)[0]
        data += os.read(process.fd, 1)
    return data


def output(argv: list[str], env: dict[str, str] | None = None, cwd: str | None = None) -> bytes:
    process = start(argv, env, cwd)
    data = read_all(process)
    ended(process)
    finish(process)
    return data


def finish(process: Process) -> None:
    process.end_group()
    os.close(process.fd)


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exit_codes(code: int) -> None:
    process = start(["/bin/sh", "-c", f"exit {code}"])
    assert ended(process) == Exit(code=code)
    assert process.poll() == Exit(code=code)  # as often as one likes, until it is reaped
    finish(process)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_signals(signum: signal.Signals) -> None:
    process = start(["/bin/sh", "-c", "echo up; exec sleep 1000"])
    assert read_line(process) == b"up\n"
    assert process.poll() is None
    process.signal(signum)
    assert ended(process) == Exit(signal=signum)
    finish(process)


def test_its_own_session_and_no_input() -> None:
    code = "import os; print(os.getpid(), os.getsid(0), os.getpgid(0), os.read(0, 9))"
    pid, sid, pgid, read = output(python(code)).split()
    assert pid == sid == pgid
    assert int(sid) != os.getsid(0)
    assert read == b"b''"


def test_stdout_and_stderr_keep_their_order() -> None:
    code = "import os\nfor n in range(300): os.write(1 + n % 2, b'%d\\n' % n)"
    assert output(python(code)) == b"".join(b"%d\n" % n for n in range(300))


def test_arguments_environment_and_directory_are_exact(tmp_path: Path) -> None:
    args = ["", "a b", "c\nd", "'$HOME'\"\\", "é", "\udcff", "*", "-x"]
    env = {"A": "", "B C": "x=y\n", "é": "\udcff"}
    place = tmp_path / "a b\n"
    place.mkdir()
    code = (
        "import os, sys; out = sys.stdout.buffer; os.environb.pop(b'LC_CTYPE', 0)\n"
        "for b in [*map(os.fsencode, sys.argv[1:]), *sorted(os.environb.items()), os.getcwdb()]:\n"
        "    out.write(b'='.join(b) if type(b) is tuple else b); out.write(b'\\0')"
    )
    got = output(python(code, *args), env, str(place)).split(b"\0")[:-1]
    assert got[: len(args)] == [os.fsencode(arg) for arg in args]
    assert got[len(args) : -1] == sorted(os.fsencode(f"{k}={v}") for k, v in env.items())
    assert got[-1] == os.fsencode(place)


def test_only_its_own_descriptors() -> None:
    spare = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(spare, True)
    got = output(python("import os; print(*sorted(map(int, os.listdir('/proc/self/fd'))))"))
    os.close(spare)
    assert got.split()[:3] == [b"0", b"1", b"2"]
    assert len(got.split()) == 4  # the directory itself


GRANDCHILD = "sleep 1000 & echo up; "


def test_the_whole_group_is_killed() -> None:
    process = start(["/bin/sh", "-c", GRANDCHILD + "wait"])
    assert read_line(process) == b"up\n"
    process.kill_group()
    assert read_all(process) == b""  # both ends of the pipe are let go
    assert ended(process) == Exit(signal=signal.SIGKILL)
    finish(process)


def test_what_the_main_process_leaves_behind_is_killed() -> None:
    process = start(["/bin/sh", "-c", GRANDCHILD + "exit 3"])
    assert ended(process) == Exit(code=3)
    assert read_line(process) == b"up\n"
    assert not select.select([process.fd], [], [], 0)[0]  # the grandchild holds the pipe
    process.end_group()
    assert read_all(process) == b""
    os.close(process.fd)


def test_killing_a_group_that_has_gone_is_no_error() -> None:
    process = start(["/bin/true"])
    ended(process)
    process.kill_group()
    finish(process)
    with pytest.raises(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def test_a_pipe_holds_no_less_than_before() -> None:
    reading, writing = os.pipe()
    before = fcntl.fcntl(writing, 1032)  # F_GETPIPE_SZ
    enlarge_pipe(writing)
    assert fcntl.fcntl(writing, 1032) >= before
    os.close(reading)
    os.close(writing)


PARENT = """
import os, sys
from zlaunch.system.spawn import Process
process = Process(["/bin/sh", "-c", "trap '' TERM HUP INT; echo up; while :; do sleep 1; done"],
                  dict(os.environ), None)
os.set_blocking(process.fd, True)
os.read(process.fd, 9)
print(process.pid, flush=True)
sys.stdin.read()
"""


def test_it_dies_when_its_parent_is_killed() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdin=pipe, stdout=pipe
    ) as parent:
        assert parent.stdout
        worker = os.pidfd_open(int(parent.stdout.readline()))
        assert not select.select([worker], [], [], 0)[0]
        parent.kill()
        assert select.select([worker], [], [], WAIT)[0]
        os.close(worker)


ADOPT = """
import os, select, signal, sys
from zlaunch.system.spawn import Process, adopt_orphans, reap_orphans, sweep
adopt_orphans()
script = "setsid sh -c 'echo $$; exec sleep 1000' &"
process = Process(["/bin/sh", "-c", script], dict(os.environ), None)
os.set_blocking(process.fd, True)
spared = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")
os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
orphan = os.pidfd_open(int(os.read(process.fd, 99)))
process.end_group()
state = lambda fd: bool(select.select([fd], [], [], 0)[0])
print("alive" if not state(orphan) else "gone")
if sys.argv[1] == "sweep":
    sweep({spared})
else:
    signal.pidfd_send_signal(orphan, signal.SIGKILL)
    os.waitid(os.P_PIDFD, orphan, os.WEXITED | os.WNOWAIT)  # it is our child now
    reap_orphans({spared})
try:
    os.waitid(os.P_PIDFD, orphan, os.WEXITED | os.WNOHANG)
except ChildProcessError:
    print("reaped")
os.kill(spared, signal.SIGTERM)
print(os.waitpid(spared, 0)[1] == signal.SIGTERM)
"""


@pytest.mark.parametrize("how", ["sweep", "reap_orphans"])
def test_orphans_are_adopted_and_ended(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ADOPT, how], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "alive\nreaped\nTrue\n"


def test_what_cannot_be_started_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(FileNotFoundError) as caught:
        start(["/no/such/program"])
    assert caught.value.filename == "/no/such/program"
    with pytest.raises(FileNotFoundError) as caught:
        start(["/bin/true"], cwd="/no/such/directory")
    assert caught.value.filename == "/no/such/directory"
    with pytest.raises(PermissionError):
        start([str(text)])
    with pytest.raises(OSError, match="Argument list too long"):
        start(["/bin/true", "x" * (1 << 20)])
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
