"""The agent's own directory: locked while it lives, and cleared where an agent was killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zlaunch.agent.private_directory import PrivateDirectory

LONG_AGO = 1_000_000_000


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def left_behind(base: Path, name: str) -> Path:
    path = base / name
    (path / "__pycache__").mkdir(parents=True)
    (path / "__pycache__" / "sitecustomize.cpython-311.pyc").touch()
    (path / "sitecustomize.py").touch()
    os.mkfifo(path / "flight-0.pipe")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def test_made_for_us_alone_and_taken_away(base: Path) -> None:
    mine = PrivateDirectory()
    mine.make()
    mine.write("sitecustomize.py", "import os\n")
    (found,) = base.iterdir()
    assert str(found) == mine.path
    assert found.stat().st_mode & 0o777 == 0o700
    assert (found / "sitecustomize.py").stat().st_mode & 0o777 == 0o600
    mine.remove()
    assert not list(base.iterdir())


def test_what_killed_agents_left_is_cleared(base: Path) -> None:
    left_behind(base, "zlaunch-handler-0123456789abcdef")
    others = [left_behind(base, "another-tool"), base / "zlaunch-handler-notes"]
    others[1].mkdir()  # not of ours: there is no handler in it
    os.utime(others[1], (LONG_AGO, LONG_AGO))
    fresh = left_behind(base, "zlaunch-handler-fresh")
    os.utime(fresh)
    mine = PrivateDirectory()
    mine.make()
    assert {path.name for path in base.iterdir()} == {
        "another-tool",
        "zlaunch-handler-notes",
        "zlaunch-handler-fresh",
        Path(mine.path).name,
    }
    mine.remove()


def test_that_of_a_living_agent_is_left_alone(base: Path) -> None:
    first, second = PrivateDirectory(), PrivateDirectory()
    first.make()
    first.write("sitecustomize.py", "")
    os.utime(first.path, (LONG_AGO, LONG_AGO))
    second.make()
    assert Path(first.path).is_dir()
    for one in (first, second):
        one.remove()


def test_no_such_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/directory")
    mine = PrivateDirectory()
    with pytest.raises(OSError, match="No such file"):
        mine.make()
    mine.remove()
