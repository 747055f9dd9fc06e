"""Nothing survives: every fault once on every way; `make soak` does it twenty times each."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from faults import BOUND, BY_NAME, FAULTS, play
from hosts import Lab

QUICK = ("local", "paramiko", "join")  # openssh differs from paramiko on the launcher's side only
CASES = [(fault.name, way) for fault in FAULTS for way in QUICK if way in fault.ways]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_nothing_survives(lab2: Lab, tmp_path: Path, name: str, way: str) -> None:
    fault = BY_NAME[name]
    struck = play(fault, way, lab2, tmp_path)
    assert struck.survivors == []
    assert struck.code in fault.codes, struck.words
    assert struck.seconds < fault.grace + BOUND, struck.words
    assert "Traceback (most recent call last)" not in struck.words


def test_a_keeper_under_nohup(lab2: Lab, tmp_path: Path) -> None:
    """HUP is ignored on that node, and the end of its zlaunch is noticed all the same."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited by what is started
    try:
        struck = play(BY_NAME["kill -9 of a keeper"], "join", lab2, tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (struck.survivors, struck.code) == ([], 125), struck.words
