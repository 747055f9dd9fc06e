"""Where ranks are, on every way to an agent: the handler travels, the stacks come back."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hosts import Lab
from ways import LONG, RANKS, Way

WORLD = sum(RANKS)
JOB = """
import os, time
def elsewhere():
    time.sleep(600)
def waiting():
    time.sleep(600)
print("up", flush=True)
elsewhere() if os.environ["RANK"] == "4" else waiting()
"""


@pytest.fixture
def way(way: Way) -> Way:
    (way.folder / "job.py").write_text(JOB)
    return way


def odd(way: Way) -> str:
    """Rank 4 is the last of the second host, which is named where there are two."""
    host = "" if way.nodes == 1 else " on h1"
    return f"rank 4{host} in elsewhere at job.py:4; ranks 0-3 in waiting at job.py:6"


def test_a_hang_ends_the_run_everywhere(way: Way) -> None:
    options = ("--hang-timeout", "0.05", "--on-hang", "stop", "--grace", "2")
    begun = time.monotonic()
    code, _, err = way.start("job.py", options=options).end()
    assert code == 124, err
    assert odd(way) in err
    (kept,) = way.home.glob("runs/*/stacks-1.txt")
    assert kept.read_text().count("most recent call first") == WORLD
    assert time.monotonic() - begun < LONG
    way.nothing_left(5.0)


def test_another_shell_asks(way: Way) -> None:
    launch = way.start("job.py")
    launch.up()
    done = asked(way)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == odd(way)


def test_of_a_second_attempt_it_is_told_where_that_one_is(way: Way) -> None:
    first = "import os\nif os.environ['ZLAUNCH_RESTART_COUNT'] == '0': raise SystemExit(3)"
    (way.folder / "job.py").write_text(JOB.replace("import os, time", f"{first}\nimport time"))
    launch = way.start("job.py", options=("--max-restarts", "1", "--healthy-after", "0"))
    launch.up()
    done = asked(way)
    assert done.returncode == 0, done.stderr
    assert "has ended" not in done.stdout
    assert " in elsewhere at job.py:6; ranks 0-3 in waiting at job.py:8" in done.stdout


def asked(way: Way) -> subprocess.CompletedProcess[str]:
    """What `zlaunch stacks` says in another shell."""
    return subprocess.run(
        [sys.executable, "-m", "zlaunch", "stacks"],
        env={"ZLAUNCH_HOME": str(way.home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def test_a_host_that_stands_still_is_said_so(lab2: Lab, tmp_path: Path) -> None:
    way = Way("paramiko", lab2, tmp_path)
    try:
        (way.folder / "job.py").write_text(JOB)
        options = ("--hang-timeout", "0.05", "--heartbeat", "60")
        launch = way.start("job.py", options=options)
        launch.up()
        lab2.hosts[1].freeze()
        err = launch.process.stderr
        assert err is not None
        line = b""
        while b"no rank has made progress" not in line:
            line = err.readline()
        assert b"ranks 3-4 on h1 (no answer from its node in time)" in line
        assert b"ranks 0-2 in waiting at job.py:6" in line
        lab2.hosts[1].mend()
    finally:
        way.close()
