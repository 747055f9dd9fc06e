"""Files that a run needs on its nodes, where several of these share the directory."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from zlaunch.agent.files import Files

TEXT = "x" * 3_000_000


def test_what_was_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    files = Files()
    files.write(
        [(f"{tmp_path}/there", "other"), (f"{tmp_path}/a/b/new", "é\udcff"), (f"{tmp_path}/c/", "")]
    )
    assert (tmp_path / "there").read_text() == "mine"
    assert (tmp_path / "a/b/new").read_bytes() == b"\xc3\xa9\xff"
    assert (tmp_path / "a/b/new").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700
    (tmp_path / "c" / "made by a rank").touch()
    files.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "there"]


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = Files()
    with pytest.raises(NotADirectoryError):
        files.write([(f"{tmp_path}/a/b", ""), (f"{tmp_path}/file/b", "")])
    files.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def _write_and_read(folder: str, start: multiprocessing.synchronize.Barrier) -> None:
    files = Files()
    start.wait()
    files.write([(f"{folder}/run/errors/", ""), (f"{folder}/run/config", TEXT)])
    whole = Path(folder, "run/config").read_text() == TEXT
    start.wait()
    files.remove()
    assert whole


@pytest.mark.parametrize("attempt", range(5))
def test_agents_that_share_the_directory(tmp_path: Path, attempt: int) -> None:
    """Each reads it whole, none fails, and nothing is left."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(6)
    agents = [
        context.Process(target=_write_and_read, args=(str(tmp_path), start)) for _ in range(6)
    ]
    for agent in agents:
        agent.start()
    for agent in agents:
        agent.join(60)
    assert [agent.exitcode for agent in agents] == [0] * 6
    assert list(tmp_path.iterdir()) == []
