"""The memory of this host, as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zlaunch.system.host_memory import host_memory


def test_no_more_than_the_machine_has() -> None:
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        pytest.skip("no /proc here")
    found = re.search(r"MemTotal:\s+(\d+) kB", meminfo.read_text())
    size = host_memory()
    assert found is not None and size is not None
    assert 64 * 2**20 < size <= int(found[1]) * 1024


def test_a_limit_of_the_cgroup_counts() -> None:
    """Where this test runs in a container with a limit, that is the answer."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        path = Path("/sys/fs/cgroup") / name
        if path.exists() and path.read_text().strip().isdigit():
            limits.append(int(path.read_text()))
    if not limits:
        pytest.skip("no limit at the top of this cgroup")
    size = host_memory()
    assert size is not None and size <= min(limits)
