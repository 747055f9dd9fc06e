"""Following the logs of a run that another process writes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from zlaunch.run.record import FINISHED, LOST
from zlaunch.system import follow as follow_module
from zlaunch.system.changes import Changes
from zlaunch.system.follow import Follower
from zlaunch.system.run_store import RunStore
from zlaunch.system.rundir import RunDir

ROOT = Path(__file__).parents[2]
LAUNCHER = """
import os, sys
from pathlib import Path
from zlaunch.run.outcome import Outcome
from zlaunch.run.record import RunRecord
from zlaunch.system.run_store import RunStore
run = RunStore(Path(sys.argv[1])).run("r")
run.create()
record = RunRecord("r", None, "running", 1.0, ("x",), "/", 2, {}, os.getpid(), "0")
run.write_record(record)
logs = {}
print("ready", flush=True)
for line in sys.stdin:
    what, *rest = line.split()
    if what == "write":
        rank = int(rest[0])
        if rank not in logs:
            logs[rank] = run.open_log(rank)
        os.write(logs[rank], bytes.fromhex(rest[1]))
    elif what == "finish":
        run.write_record(record.ended_with(Outcome({}), 2.0))
"""


class Launcher:
    """A process that writes what it is told, and holds the run's lock."""

    def __init__(self, home: Path) -> None:
        self.run: RunDir = RunStore(home).run("r")
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", LAUNCHER, str(home)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    def tell(self, what: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def write(self, rank: int, data: bytes) -> None:
        self.tell(f"write {rank} {data.hex()}")

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path / "home")
    yield launcher
    launcher.close()


@pytest.fixture(params=["inotify", "clock"])
def news(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system's word of changes, and as on systems that give none."""
    if request.param == "clock":
        monkeypatch.setattr(follow_module, "can_watch", lambda: False)


class Taken:
    """What came of each rank; each piece leads to the next word to the launcher."""

    def __init__(self, launcher: Launcher, words: list[str]) -> None:
        self.data = {0: b"", 1: b""}
        self._launcher = launcher
        self._words = iter(words)

    def next(self) -> None:
        word = next(self._words, None)
        if word == "kill":
            self._launcher.kill()
        elif word is not None:
            self._launcher.tell(word)

    def __call__(self, rank: int, data: bytes) -> None:
        self.data[rank] += data
        self.next()


def test_all_bytes_of_a_growing_file_until_the_run_has_finished(
    launcher: Launcher, news: None
) -> None:
    pieces = [os.urandom(number) for number in (1, 2, 70, 3000, 5)]
    words = [f"write {n % 2} {piece.hex()}" for n, piece in enumerate(pieces)]
    taken = Taken(launcher, [*words, "finish"])
    follower = Follower(launcher.run, {0: 0, 1: 0}, taken)
    taken.next()
    follower.follow()
    follower.close()
    assert taken.data == {0: b"".join(pieces[::2]), 1: b"".join(pieces[1::2])}
    assert launcher.run.log(0).read_bytes() == taken.data[0]
    assert launcher.run.read_record().state == FINISHED


def test_what_is_written_just_before_the_end_is_taken(launcher: Launcher, news: None) -> None:
    taken = Taken(launcher, [])
    follower = Follower(launcher.run, {0: 0, 1: 0}, taken)
    for number in range(2000):
        launcher.write(number % 2, b"%07d\n" % number)
    launcher.tell("finish")
    follower.follow()
    follower.close()
    assert taken.data[0] == b"".join(b"%07d\n" % number for number in range(0, 2000, 2))
    assert taken.data[1] == b"".join(b"%07d\n" % number for number in range(1, 2000, 2))


def test_it_ends_when_the_launcher_is_killed(launcher: Launcher, news: None) -> None:
    taken = Taken(launcher, ["write 1 6c617374", "kill"])
    follower = Follower(launcher.run, {0: 0, 1: 0}, taken)
    launcher.write(0, b"first")
    follower.follow()
    follower.close()
    assert taken.data == {0: b"first", 1: b"last"}
    assert launcher.run.read_record().state == LOST


def test_a_run_that_has_ended_is_read_to_its_end(launcher: Launcher, news: None) -> None:
    launcher.write(0, b"all there is")
    launcher.tell("finish")
    launcher.process.communicate()
    taken = Taken(launcher, [])
    follower = Follower(launcher.run, {0: 4, 1: 0}, taken)  # from an offset on
    follower.follow()
    follower.close()
    assert taken.data == {0: b"there is", 1: b""}


def test_a_launcher_on_another_machine_is_looked_at_by_the_clock(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that both share, nobody tells of what the other one writes."""
    (tmp_path / "deaf").mkdir()
    monkeypatch.setattr(follow_module, "_watch", lambda _: Changes([tmp_path / "deaf"]))
    record = launcher.run.read_record()
    launcher.run.write_record(replace(record, host="another machine"))
    launcher.write(0, b"first")
    taken = Taken(launcher, ["write 1 6c617374", "kill"])
    follower = Follower(launcher.run, {0: 0, 1: 0}, taken)
    follower.follow()
    follower.close()
    assert taken.data == {0: b"first", 1: b"last"}


def test_the_ranks_that_are_not_asked_for_are_left_out(launcher: Launcher) -> None:
    launcher.write(1, b"other")
    launcher.write(0, b"mine")
    taken = Taken(launcher, ["finish"])
    follower = Follower(launcher.run, {0: 0}, taken)
    follower.follow()
    follower.close()
    assert taken.data == {0: b"mine", 1: b""}


def test_no_descriptor_is_left(launcher: Launcher) -> None:
    launcher.write(0, b"x")
    launcher.tell("finish")
    launcher.process.communicate()
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    follower = Follower(launcher.run, {0: 0, 1: 0}, Taken(launcher, []))
    follower.follow()
    follower.close()
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_a_directory_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(FileNotFoundError):
        Changes([tmp_path, tmp_path / "missing"])
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
