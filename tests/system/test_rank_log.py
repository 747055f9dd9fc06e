"""A rank's log in several files: what is kept, and what readers see of it meanwhile."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from zlaunch.system.rank_log import RankLog, RankLogReader, files_of
from zlaunch.system.rundir import RunDir
from zlaunch.system.tail import last_lines, line_end, line_start, log_bounds, read_span

MOST = 4000  # bytes


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir(tmp_path / "runs" / "r")
    run.create()
    return run


def lines(begin: int, end: int) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(begin, end))


def on_disk(run: RunDir, attempt: int = 0) -> list[bytes]:
    return [file.path.read_bytes() for file in files_of(run, 0, attempt)]


def test_without_a_limit_it_is_one_file(run: RunDir) -> None:
    log = RankLog(run, 0, 0)
    for number in range(500):
        assert log.append(lines(number, number + 1)) is None
    assert run.log(0).read_bytes() == lines(0, 500)
    assert not run.older_logs(0).exists()


@pytest.mark.parametrize("piece", [1, 7, 300, 5000])
def test_the_newest_is_kept_in_files_that_begin_with_a_line(run: RunDir, piece: int) -> None:
    log, data = RankLog(run, 0, 0, MOST), lines(0, 900)
    for number, at in enumerate(range(0, len(data), piece)):
        log.append(data[at : at + piece])
        if number % 5:
            continue
        kept = sum(map(len, on_disk(run)))
        assert kept <= MOST
        assert kept >= min(at + piece, len(data), MOST // 2)
    files = on_disk(run)
    assert data.endswith(b"".join(files))
    assert all(file.startswith(b"line ") for file in files)
    assert run.log(0).read_bytes() == files[-1]
    first, end = log_bounds(run, 0, 0)
    assert (end, read_span(run, 0, 0, first, end)) == (len(data), b"".join(files))


def test_a_line_without_an_end_is_kept_within_the_limit(run: RunDir) -> None:
    log = RankLog(run, 0, 0, MOST)
    log.append(b"x" * 50_000)
    assert MOST // 2 <= sum(map(len, on_disk(run))) <= MOST


def test_attempts_have_files_of_their_own(run: RunDir) -> None:
    for rank, attempt in ((0, 0), (0, 1), (1, 0), (10, 0)):
        log = RankLog(run, rank, attempt, MOST)
        log.append(b"%d.%d\n" % (rank, attempt) * 2000)
    for rank, attempt in ((0, 0), (0, 1), (1, 0), (10, 0)):
        first, end = log_bounds(run, rank, attempt)
        assert first > 0
        assert set(read_span(run, rank, attempt, first, end).split()) == {
            b"%d.%d" % (rank, attempt)
        }


@pytest.mark.parametrize("seed", range(10))
def test_a_reader_that_keeps_up_misses_nothing_and_one_that_does_not_counts(
    run: RunDir, seed: int
) -> None:
    """Both read at random moments; the slow one seldom enough for files to be gone."""
    dice = random.Random(seed)
    log, data = RankLog(run, 0, 0, MOST), lines(0, 2500)
    quick, slow = RankLogReader(run, 0, 0), RankLogReader(run, 0, 0)
    seen: dict[RankLogReader, list[tuple[int, bytes]]] = {quick: [], slow: []}

    def look(reader: RankLogReader) -> None:
        while piece := reader.read(dice.randrange(1, 900)):
            seen[reader].append((reader.offset - len(piece), piece))

    at = 0
    while at < len(data):
        size = dice.randrange(1, 700)
        log.append(data[at : at + size])
        at += size
        look(quick)
        if dice.random() < 0.02:
            look(slow)
    look(slow)
    assert quick.lost == 0
    assert b"".join(piece for _, piece in seen[quick]) == data
    for reader in (quick, slow):
        assert all(data[begin : begin + len(p)] == p for begin, p in seen[reader])
        assert reader.lost + sum(len(p) for _, p in seen[reader]) == len(data)
        reader.close()


def test_a_file_that_is_open_is_read_to_its_end_also_when_it_is_gone(run: RunDir) -> None:
    log, reader = RankLog(run, 0, 0, MOST), RankLogReader(run, 0, 0)
    log.append(lines(0, 50))
    assert reader.read(10) == b"line 00000"
    log.append(lines(50, 60))
    log.append(lines(60, 2000))
    first = reader.read(1 << 20)
    assert first.startswith(b"0\nline 000001")
    rest = b"".join(iter(lambda: reader.read(1 << 20), b""))
    assert reader.lost == len(lines(0, 2000)) - 10 - len(first) - len(rest)
    assert reader.lost > 0
    reader.close()


def test_where_the_last_lines_begin_whichever_file_that_is_in(run: RunDir) -> None:
    log = RankLog(run, 0, 0, 1 << 20)
    log.append(lines(0, 200_000) + b"unfinished")
    size = log_bounds(run, 0, 0)[1]
    assert line_end(run, 0) == size - len(b"unfinished")
    for count in (1, 3, 1000, 40_000):
        begin = line_start(run, 0, 0, line_end(run, 0), count)
        assert read_span(run, 0, 0, begin, begin + 12) == b"line %06d\n" % (200_000 - count)
        assert line_start(run, 0, 0, size, count + 1) == begin
    assert line_start(run, 0, 0, size, 0) == size
    assert line_start(run, 0, 0, size, 10**9) == log_bounds(run, 0, 0)[0] > 0
    assert last_lines(run, 0)[-2:] == [b"line 199999", b"unfinished"]


def test_lines_just_behind_a_change_of_files_are_found(run: RunDir) -> None:
    """The newest file may hold one line alone: a diagnosis needs those before it."""
    log, number = RankLog(run, 0, 0, MOST), 0
    while not run.older_logs(0).exists():
        log.append(lines(number, number + 1))
        number += 1
    assert run.log(0).read_bytes() == lines(number - 1, number)
    assert last_lines(run, 0) == lines(0, number).splitlines()


def test_what_is_no_file_is_no_log(run: RunDir) -> None:
    """A pipe would be waited for, and a directory cannot be read."""
    os.mkfifo(run.log(0))
    assert last_lines(run, 0, 0) == []
    assert RankLogReader(run, 0, 0).read(10) == b""
    run.log(1).mkdir()
    assert log_bounds(run, 1, 0) == (0, 0)
