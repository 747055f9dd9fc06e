"""The directory of leases: real locks, and what others might have laid there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zlaunch.spec.leases import Claim
from zlaunch.system.leases import Leases, lease_directory

ME, YOU = Claim("me"), Claim("you", "ann", 7, 1e9)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "leases")


def test_all_or_none(place: str) -> None:
    one, other = Leases(place), Leases(place)
    assert one.take(["b"], YOU)
    assert not other.take(["a", "b", "c"], ME)
    assert one.holder("a") is None
    assert other.holder("b") == YOU
    assert one.holder("b") is None  # we ourselves
    one.give_back()
    assert other.holder("b") is None
    assert other.take(["a", "b", "c"], ME)
    other.close()
    assert one.take(["c"], ME)
    one.close()


def test_the_kernel_gives_back_what_a_killed_one_held(place: str) -> None:
    code = (
        "import sys, time; from zlaunch.system.leases import *; "
        "leases = Leases(sys.argv[1]); leases.take(['a'], Claim('dead')); "
        "leases.queue_up((1, 'dead'), Claim('dead')); print('up', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, place], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        ours = Leases(place)
        held, waits = ours.holder("a"), ours.queue()
        process.kill()
        process.wait()
    assert held is not None and held.run == "dead"
    assert [claim.run for _, claim in waits] == ["dead"]
    assert ours.take(["a"], ME)
    assert ours.queue() == []
    assert not list(Path(place).glob("ticket-*"))  # and its ticket is taken away
    ours.close()


def test_the_queue(place: str) -> None:
    first, second, third = Leases(place), Leases(place), Leases(place)
    second.queue_up((20, "second"), Claim("second", names=("a", "b")))
    first.queue_up((9, "first"), Claim("first", names=("a",)))
    assert [claim.run for _, claim in third.queue()] == ["first", "second"]
    assert first.before((9, "first"), ("a",)) is None
    assert second.before((20, "second"), ("a", "b")) == Claim("first", names=("a",))
    found = third.before((30, "third"), ("b",))
    assert found is not None and found.run == "second"
    assert third.before((30, "third"), ("c",)) is None  # none of theirs
    assert third.before((5, "third"), ("a",)) is None
    assert third.before((30, "second"), ("b",)) is None  # another node of the same run
    first.queue_up((9, "first"), Claim("first", names=("c",), why="changed"))
    found = third.before((30, "third"), ("c",))
    assert found is not None and found.why == "changed"
    for one in (first, second):
        one.leave_queue()
    assert third.queue() == []
    for one in (first, second, third):
        one.close()


def test_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlaunch.system.leases.lease_directory", lambda _: str(tmp_path / "own"))
    leases = Leases()
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert leases.take(["a"], ME)
    assert (tmp_path / "own" / "device-a").stat().st_mode & 0o777 == 0o600
    leases.close()
    (tmp_path / "own").chmod(0o755)
    with pytest.raises(OSError, match="not private"):
        Leases()
    (tmp_path / "own").rename(tmp_path / "other")
    (tmp_path / "other").chmod(0o700)
    (tmp_path / "own").symlink_to("other")
    with pytest.raises(OSError, match="own"):
        Leases()


def test_its_name_is_that_of_the_user_and_of_nothing_else() -> None:
    assert lease_directory("") == f"/tmp/zlaunch-leases-{os.geteuid()}"
    assert lease_directory("/srv/leases") == "/srv/leases"


def test_a_shared_one_needs_the_sticky_bit(tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(OSError, match=r"chmod \+t"):
        Leases(str(place))
    place.chmod(0o1777)
    before = os.umask(0o077)
    try:
        leases = Leases(str(place))
        assert leases.take(["a"], ME)
        leases.queue_up((1, "me"), ME)
    finally:
        os.umask(before)
    assert (place / "device-a").stat().st_mode & 0o777 == 0o666
    (ticket,) = place.glob("ticket-*")
    assert ticket.stat().st_mode & 0o777 == 0o644
    leases.close()


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo", "directory", "dangling"])
def test_nothing_is_followed(tmp_path: Path, kind: str) -> None:
    place, victim, trap = tmp_path / "shared", tmp_path / "victim", tmp_path / "shared" / "device-a"
    place.mkdir()
    place.chmod(0o1777)
    victim.write_text("precious")
    if kind == "symlink":
        trap.symlink_to(victim)
    elif kind == "dangling":
        trap.symlink_to(tmp_path / "nowhere")
    elif kind == "hard link":
        trap.hardlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(trap)
    else:
        trap.mkdir()
    leases = Leases(str(place))
    with pytest.raises(OSError):  # noqa: PT011  # of a kind that depends on the trap
        leases.take(["a"], ME)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    assert leases.take(["b"], ME)
    leases.close()


def test_one_at_a_time(place: str) -> None:
    one, other = Leases(place), Leases(place)
    with one.turn():
        pass
    with other.turn():
        assert other.take(["a"], ME)
    one.close()
    other.close()
