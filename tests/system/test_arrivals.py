"""The index of the logs: in which order bytes came, and when."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from zlaunch.system import arrivals as arrivals_module
from zlaunch.system.arrivals import ArrivalReader, Arrivals, known_from, offsets_since
from zlaunch.system.merge import MergingFollower
from zlaunch.system.rank_log import RankLog
from zlaunch.system.rundir import RunDir

RANKS = (0, 1, 2)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir(tmp_path / "runs" / "r")
    run.create()
    return run


class Clock:
    """Stands for the module's `time`."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(1_700_000_000.0)
    monkeypatch.setattr(arrivals_module, "time", clock)
    return clock


class Writer:
    """Writes as the launcher does, and remembers the order."""

    def __init__(self, run: RunDir, most: int = 1 << 20, log_max: int | None = None) -> None:
        self.run = run
        self.index = Arrivals(run, most)
        self.log_max = log_max
        self.attempt = 0
        self.logs = {rank: RankLog(run, rank, 0, log_max) for rank in RANKS}
        self.order: list[tuple[int, bytes]] = []

    def write(self, rank: int, data: bytes) -> None:
        log = self.logs[rank]
        assert self.index.note(rank, self.attempt, log.size, len(data)) is None
        assert log.append(data) is None
        self.order.append((rank, data))

    def again(self) -> None:
        self.attempt += 1
        self.logs = {rank: RankLog(self.run, rank, self.attempt, self.log_max) for rank in RANKS}


def merged(order: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Neighbours of one rank made one: where a rank goes on, pieces may be cut elsewhere."""
    found: list[tuple[int, bytes]] = []
    for rank, data in order:
        if found and found[-1][0] == rank:
            found[-1] = rank, found[-1][1] + data
        else:
            found.append((rank, data))
    return found


def read_all(run: RunDir, ranks: tuple[int, ...] = RANKS) -> list[tuple[int, bytes]]:
    seen: list[tuple[int, bytes]] = []
    follower = MergingFollower(
        run, dict.fromkeys(ranks, 0), lambda rank, data: seen.append((rank, data))
    )
    follower.read_new()
    follower.close()
    return merged(seen)


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_arrival_is_exact_also_for_who_reads_meanwhile(run: RunDir, seed: int) -> None:
    dice = random.Random(seed)
    writer = Writer(run)
    seen: list[tuple[int, bytes]] = []
    follower = MergingFollower(run, dict.fromkeys(RANKS, 0), lambda *piece: seen.append(piece))
    for number in range(400):
        rank = dice.choice(RANKS)
        writer.write(rank, b"%d %d %s\n" % (rank, number, b"x" * dice.randrange(30)))
        if number in {150, 300}:
            writer.again()
        if dice.random() < 0.1:
            follower.look(over=False)
            assert merged(seen) == merged(writer.order)  # nothing is held back either
    follower.look(over=True)
    follower.close()
    assert merged(seen) == merged(writer.order)
    assert read_all(run) == merged(writer.order)
    only = [piece for piece in writer.order if piece[0] != 1]
    assert read_all(run, (0, 2)) == merged(only)


def test_it_is_small_where_one_rank_writes_and_some_bytes_a_change_else(run: RunDir) -> None:
    writer = Writer(run)
    for _ in range(5000):
        writer.write(0, b"x\n")
    alone = run.arrivals.stat().st_size
    assert alone < 32 + 20 * 60  # a record a second at most; it does not take a minute
    for number in range(1000):
        writer.write(number % 2, b"x\n")
    assert run.arrivals.stat().st_size - alone <= 20 * 1001


def test_what_a_killed_launcher_left_of_a_record_does_not_matter(run: RunDir) -> None:
    writer = Writer(run)
    for number in range(100):
        writer.write(number % 3, b"%d\n" % number)
    with run.arrivals.open("ab") as file:
        file.write(b"\x01\x02\x03")
    with run.log(2).open("ab") as file:  # bytes of which no record tells
        file.write(b"the last\n")
    assert read_all(run) == merged([*writer.order, (2, b"the last\n")])


def test_an_index_that_is_too_large_forgets_its_beginning_and_no_line(run: RunDir) -> None:
    writer = Writer(run, most=2000)
    for number in range(1000):
        writer.write(number % 3, b"%d\n" % number)
    assert sum(path.stat().st_size for path in run.path.glob("arrivals*")) <= 4000
    seen = read_all(run)
    for rank in RANKS:
        assert b"".join(data for at, data in seen if at == rank) == run.log(rank).read_bytes()
    assert seen[-90:] == merged(writer.order)[-90:]
    assert known_from(run) > 0


def test_who_follows_goes_on_in_the_next_file_of_the_index(run: RunDir) -> None:
    writer = Writer(run, most=1000)
    seen: list[tuple[int, bytes]] = []
    follower = MergingFollower(run, dict.fromkeys(RANKS, 0), lambda *piece: seen.append(piece))
    for number in range(500):
        writer.write(number % 3, b"%d\n" % number)
        if number % 20 == 0:
            follower.look(over=False)
    follower.look(over=True)
    follower.close()
    assert merged(seen) == merged(writer.order)


def test_merging_with_logs_that_have_a_size(run: RunDir) -> None:
    writer = Writer(run, log_max=4000)
    lost: list[tuple[int, int]] = []
    seen: list[tuple[int, bytes]] = []
    for number in range(3000):
        writer.write(number % 3, b"%06d\n" % number)
    follower = MergingFollower(
        run, dict.fromkeys(RANKS, 0), lambda *p: seen.append(p), None, lambda *p: lost.append(p)
    )
    follower.read_new()
    follower.close()
    numbers = [int(data) for _, data in seen]
    assert numbers[-600:] == list(range(2400, 3000))
    assert {rank for rank, _ in lost} == set(RANKS)
    whole = sum(len(data) for _, data in writer.order)
    assert sum(size for _, size in lost) + sum(len(data) for _, data in seen) == whole


def test_since_when(run: RunDir, clock: Clock) -> None:
    writer = Writer(run)
    begun = clock.now
    for number in range(100):
        clock.now = begun + 10 * number
        writer.write(0, b"%02d\n" % number)
        if number < 50:
            writer.write(1, b"%02d\n" % number)
    found = offsets_since(run, begun + 700, RANKS)
    assert found == {0: (0, 3 * 70)}  # the others wrote nothing since
    assert offsets_since(run, begun + 300, RANKS) == {0: (0, 90), 1: (0, 90)}
    assert offsets_since(run, begun - 5, (1,)) == {1: (0, 0)}
    assert offsets_since(run, begun + 5000, RANKS) == {}
    assert known_from(run) == 0


def test_since_when_in_an_index_of_two_files_and_attempts(run: RunDir, clock: Clock) -> None:
    writer = Writer(run, most=1000)  # of 48 records
    begun = clock.now
    for number in range(80):
        clock.now = begun + 10 * number
        if number == 60:
            writer.again()
        writer.write(0, b"%02d\n" % number)
    assert offsets_since(run, begun + 200, (0,)) == {0: (0, 60)}
    assert offsets_since(run, begun + 500, (0,)) == {0: (0, 150)}
    assert offsets_since(run, begun + 700, (0,)) == {0: (1, 30)}


def test_a_clock_that_is_set_back_unsorts_nothing(run: RunDir, clock: Clock) -> None:
    writer = Writer(run)
    for number, now in enumerate((100.0, 200.0, 50.0, 60.0, 300.0)):
        clock.now = 1_700_000_000.0 + now
        writer.write(number % 2, b"%d\n" % number)
    reader = ArrivalReader(run)
    times = [record[0] for record in reader.read()]
    reader.close()
    assert times == sorted(times)


def test_a_run_without_one(run: RunDir) -> None:
    with pytest.raises(FileNotFoundError):
        ArrivalReader(run)
