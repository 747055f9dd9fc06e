"""What ranks use is told of on every way to an agent."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from ways import LONG, RANKS, Way

WORLD = sum(RANKS)
JOB = """
import os, time
held = bytearray(os.urandom(1)) * (64 << 20)
print("up", flush=True)
time.sleep(600)
"""


def test_ranks_of_all_hosts_are_seen(way: Way) -> None:
    (way.folder / "job.py").write_text(JOB)
    way.start("job.py").up()
    deadline = time.monotonic() + LONG
    ranks: list[dict[str, Any]] = []
    while not all("rss" in rank for rank in ranks) or not ranks:
        assert time.monotonic() < deadline, ranks
        ranks = seen(way)
    assert len(ranks) == WORLD
    assert all(rank["rss"] > 64 << 20 for rank in ranks)
    assert len({rank["host"] for rank in ranks}) == way.nodes


def seen(way: Way) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "zlaunch", "top", "--once", "--json"]
    env = {"ZLAUNCH_HOME": str(way.home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["ranks"]
    return found
