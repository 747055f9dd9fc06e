"""Run directories on a real disk, with real launchers that hold their locks."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from zlaunch.errors import InputError, ZlaunchError
from zlaunch.run.messages import Exit, Exited
from zlaunch.run.outcome import Outcome
from zlaunch.run.record import FINISHED, LOST, RUNNING, RunRecord
from zlaunch.system.launcher_end import LauncherEnd
from zlaunch.system.run_removal import remove
from zlaunch.system.run_store import RunStore, home_directory, new_run_id
from zlaunch.system.rundir import RunDir

ROOT = Path(__file__).parents[2]
RECORD = RunRecord(
    id="20261130-041507-3fa2",
    name=None,
    state=RUNNING,
    started=1.0,
    command=("train.py", "\udcff"),
    cwd="/",
    world_size=1,
    plan={},
    launcher_pid=os.getpid(),
    version="0.1.0",
)
ENDED = RECORD.ended_with(Outcome({0: Exited(0, Exit(code=0), 2.0)}), 2.0)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "home")


def made(store: RunStore, run_id: str, name: str | None = None) -> RunDir:
    run = store.run(run_id)
    run.create()
    run.write_record(replace(RECORD, id=run_id, name=name))
    return run


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_may_look(store: RunStore) -> None:
    before = os.umask(0)
    try:
        run = made(store, "a")
        run.write_text(run.ds_config, "{}")
        os.close(run.open_log(0))
        os.close(run.open_events())
    finally:
        os.umask(before)
    assert mode(store.home) == mode(run.path) == mode(run.logs) == 0o700
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {
        *("run.json", "lock", "ds_config.json", "events.jsonl", "rank-0.log"),
    }
    assert {mode(path) for path in files} == {0o600}


def test_a_home_that_serves_others_too_keeps_its_mode(store: RunStore) -> None:
    store.home.mkdir()
    store.home.chmod(0o755)
    run = made(store, "a")
    assert mode(store.home) == 0o755
    assert mode(run.path.parent) == mode(run.path) == 0o700


def test_a_record_is_read_as_it_was_written(store: RunStore) -> None:
    run = made(store, RECORD.id)
    assert run.read_record() == RECORD
    run.write_record(ENDED)
    assert run.read_record() == ENDED
    assert list(run.path.glob("*.new")) == []


def test_logs_only_grow(store: RunStore) -> None:
    run = made(store, "a")
    for data in (b"\xff\x00", b"\r\n"):
        fd = run.open_log(12)
        os.write(fd, data)
        os.close(fd)
    os.close(run.open_log(3))
    (run.logs / "notes.txt").touch()
    assert run.log(12).read_bytes() == b"\xff\x00\r\n"


def test_run_ids_sort_by_time() -> None:
    ids = [new_run_id() for _ in range(20)]
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4,8}", run_id) for run_id in ids)
    assert sorted(ids, key=lambda run_id: run_id[:-2]) == ids  # the rest is by chance


@pytest.mark.parametrize(
    ("env", "home"),
    [
        ({"ZLAUNCH_HOME": "/z", "XDG_STATE_HOME": "/x"}, "/z"),
        ({"ZLAUNCH_HOME": "", "XDG_STATE_HOME": "/x"}, "/x/zlaunch"),
        ({"ZLAUNCH_HOME": "~/runs"}, "/home/me/runs"),
        ({}, "/home/me/.local/state/zlaunch"),
    ],
)
def test_home(monkeypatch: pytest.MonkeyPatch, env: dict[str, str], home: str) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert home_directory(env) == Path(home)


def test_a_relative_home_stays_where_it_was_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    home = home_directory({"ZLAUNCH_HOME": "runs"})
    monkeypatch.chdir("/")
    assert home == tmp_path / "runs"


# Finding


def test_find(store: RunStore) -> None:
    for run_id, name in [("20260101-a1", "base"), ("20260102-b1", "big"), ("20260102-b2", "base")]:
        store.set_latest(made(store, run_id, name))
    assert store.ids() == ["20260101-a1", "20260102-b1", "20260102-b2"]
    assert [run.id for run in store.newest_first()] == store.ids()[::-1]
    assert store.find(None).id == "20260102-b2"
    assert store.find("20260102-b1").id == "20260102-b1"
    assert store.find("20260101").id == "20260101-a1"
    assert store.find("big").id == "20260102-b1"
    assert store.find("base").id == "20260102-b2"  # the newest of that name


def test_an_id_that_begins_another_is_itself(store: RunStore) -> None:
    made(store, "a1")
    made(store, "a12")
    assert store.find("a1").id == "a1"


def test_an_ambiguous_prefix_names_the_runs(store: RunStore) -> None:
    made(store, "a1")
    made(store, "a2")
    with pytest.raises(
        InputError, match=r"'a' begins the ids of 2 runs:\n  a2  running\n  a1  running"
    ):
        store.find("a")


@pytest.mark.parametrize("reference", ["", " "])
def test_nothing_names_no_run_not_even_the_only_one(store: RunStore, reference: str) -> None:
    made(store, "a")
    with pytest.raises(InputError, match="RUN is empty"):
        store.find(reference)


@pytest.mark.parametrize("reference", ["nothing", "..", "/", "../home", "a/../a"])
def test_what_is_not_there_is_not_found(store: RunStore, reference: str) -> None:
    made(store, "a")
    with pytest.raises(InputError, match="there is no run"):
        store.find(reference)


def test_nothing_was_run_yet(store: RunStore) -> None:
    assert store.ids() == []
    for reference in (None, "a"):
        with pytest.raises(InputError, match="there is no run"):
            store.find(reference)


def test_latest_that_was_deleted(store: RunStore) -> None:
    made(store, "a")
    store.set_latest(store.run("gone"))
    assert store.find(None).id == "a"
    (store.home / "latest").unlink()
    assert store.find(None).id == "a"


def test_latest_is_a_link_that_people_can_follow(store: RunStore) -> None:
    store.set_latest(made(store, "a"))
    store.set_latest(made(store, "b"))
    assert (store.home / "latest" / "run.json").samefile(store.run("b").record_path)
    assert sorted(path.name for path in store.home.iterdir()) == ["latest", "runs"]


# A launcher that is gone

LAUNCHER = """
import json, sys
from pathlib import Path
from zlaunch.run.record import RunRecord
from zlaunch.system.run_store import RunStore
record = RunRecord.from_json(json.loads(sys.argv[2]))
run = RunStore(Path(sys.argv[1])).run(record.id)
run.create()
run.write_record(record)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def living(store: RunStore) -> Iterator[subprocess.Popen[bytes]]:
    """A launcher in a process of its own, whose run is there."""
    command = [sys.executable, "-c", LAUNCHER, str(store.home), json.dumps(RECORD.to_json())]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as launcher:
        assert launcher.stdout
        assert launcher.stdout.readline() == b"ready\n"
        yield launcher


def test_a_run_whose_launcher_was_killed_is_lost(store: RunStore) -> None:
    with living(store) as launcher:
        run = store.run(RECORD.id)
        assert run.launcher_lives()
        assert run.read_record() == RECORD
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()
        assert not run.launcher_lives()
        assert run.read_record() == replace(RECORD, state=LOST)
        assert '"running"' in run.record_path.read_text()  # lost is never written
        run.write_record(ENDED)
        assert run.read_record().state == FINISHED


# Places that cannot be written or read


def test_a_home_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"run directory cannot be written: .*/file"):
        RunStore(tmp_path / "file" / "home").run("a").create()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"cannot be written: .*Permission denied"):
        RunStore(tmp_path / "home").run("a").create()
    tmp_path.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everywhere")
def test_what_may_not_be_looked_into_is_not_empty(store: RunStore) -> None:
    run = made(store, "a")
    run.path.chmod(0)
    assert [one.id for one in store.newest_first()] == ["a"]
    with pytest.raises(ZlaunchError, match="Permission denied"):
        run.read_record()
    run.path.chmod(0o700)
    run.path.parent.chmod(0)
    with pytest.raises(InputError, match="runs: Permission denied"):
        store.ids()
    run.path.parent.chmod(0o700)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"id": "a"}', "\xff"])
def test_a_record_that_cannot_be_read(store: RunStore, content: str) -> None:
    run = made(store, "a")
    run.record_path.write_text(content, encoding="latin-1")
    with pytest.raises(ZlaunchError, match=r"run\.json cannot be read"):
        run.read_record()


@pytest.mark.parametrize(
    "wrong",
    [
        {"world_size": 10**9},  # would be counted through
        {"outcome": 5},
        {"outcome": {"exits": {"a": {}}}},
        {"outcome": {"exits": {"0": 3}}},
        {"outcome": {"exits": {}, "attempts": "x"}},
    ],
)
def test_a_record_of_which_others_could_not_make_anything(
    store: RunStore, wrong: dict[str, object]
) -> None:
    path = made(store, "r").record_path
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    with pytest.raises(ZlaunchError, match=r"run\.json cannot be read"):
        store.run("r").read_record()


def test_a_record_that_is_a_pipe_is_not_waited_for(store: RunStore) -> None:
    run = store.run("r")
    run.path.mkdir(parents=True)
    os.mkfifo(run.record_path)
    with pytest.raises(ZlaunchError, match=r"run\.json cannot be read"):
        run.read_record()


def test_a_broken_record_does_not_hide_the_others(store: RunStore) -> None:
    made(store, "a", "mine")
    made(store, "b").record_path.write_text("{")
    assert store.find("mine").id == "a"


def test_a_missing_record(store: RunStore) -> None:
    with pytest.raises(ZlaunchError, match="run a is gone"):
        store.run("a").read_record()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    # The run's lock stays open as long as this process lives.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    run = made(RunStore(small_disk / "home"), "a")
    with pytest.raises(InputError, match=r"ds_config\.json: No space left on device"):
        run.write_text(run.ds_config, "x" * (1 << 20))
    assert not run.ds_config.exists()
    assert run.read_record().id == "a"


# Removing


def test_what_is_removed_is_the_run_alone(store: RunStore, tmp_path: Path) -> None:
    """Links in it are removed as links; a run that is a link, too."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    for run_id in ("plain", "real"):
        folder = store.home / "runs" / run_id
        (folder / "logs").mkdir(parents=True)
        (folder / "logs" / "out").symlink_to(outside)
        (folder / "file").symlink_to(outside / "kept")
    (store.home / "runs" / "real").rename(tmp_path / "moved")
    (store.home / "runs" / "real").symlink_to(tmp_path / "moved")
    for run_id in ("plain", "real"):
        remove(store.run(run_id))
    assert store.ids() == []
    assert (outside / "kept").read_text() == "kept"
    assert (tmp_path / "moved" / "logs").is_dir()


def test_no_run_that_is_alive_is_removed(store: RunStore) -> None:
    run = made(store, "a")
    with pytest.raises(InputError, match="run a is running"):
        remove(run)
    assert run.has_record()


# A launcher's end


def test_the_end_of_a_launcher_wakes_who_waits(store: RunStore) -> None:
    with living(store) as launcher:
        end = LauncherEnd(store.run(RECORD.id))
        assert not end.wait(0.1)
        launcher.send_signal(signal.SIGKILL)
        assert end.wait(60)
        end.close()
    past = LauncherEnd(store.run(RECORD.id))
    assert past.wait(0)
    past.close()


def test_events_are_read_as_far_as_they_are_whole(store: RunStore) -> None:
    run = made(store, "a")
    assert run.read_events() == []
    good = [{"event": "Started", "at": 1.0, "rank": rank, "pid": 7} for rank in (1, 2)]
    odd = [{"rank": 1}, {**good[0], "rank": "a"}, {**good[0], "pid": {}}, {**good[0], "at": "x"}]
    odd += [{"event": "Exited", "at": 1.0, "rank": 1, "exit": 3}]
    lines = [json.dumps(good[0]), "nonsense", "[3]", *map(json.dumps, odd), json.dumps(good[1])]
    (run.path / "events.jsonl").write_text("\n".join([*lines, '{"ra']))
    assert run.read_events() == good
