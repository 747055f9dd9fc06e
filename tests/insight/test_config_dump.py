"""The print of DeepSpeed's configuration, on recordings of real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from zlaunch.insight.config_dump import Dump, begins, observe

RECORDINGS = Path(__file__).parents[1] / "recordings"
STAMP = b"[2026-11-30 01:49:20,593] [INFO] [config.py:678:print]"


def split(lines: list[bytes]) -> tuple[list[bytes], list[bytes], Dump | None]:
    folded, shown, dump = [], [], None
    for line in lines:
        dump, belongs = observe(dump, line)
        (folded if belongs else shown).append(line)
    return folded, shown, dump


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_exactly_the_print_is_folded(stage: int) -> None:
    lines = (RECORDINGS / f"overflow_stage{stage}.log").read_bytes().splitlines()
    first = next(i for i, line in enumerate(lines) if begins(line))
    last = lines.index(b"}", next(i for i, line in enumerate(lines) if b"   json = {" in line))
    folded, shown, dump = split(lines)
    assert folded == lines[first : last + 1]
    assert shown == lines[:first] + lines[last + 1 :]
    assert len(folded) > 100
    assert dump is None


def test_the_end_is_told_once() -> None:
    lines = (RECORDINGS / "overflow_stage2.log").read_bytes().splitlines()
    ends, dump = 0, None
    for line in lines:
        dump, _ = observe(dump, line)
        ends += dump is not None and dump.over
    assert ends == 1


def test_a_line_of_somebody_else_in_between_is_shown() -> None:
    lines = [
        STAMP + b" DeepSpeedEngine configuration:",
        b"UserWarning: something",
        STAMP + b"   comms_config  {",
        b'    "enabled": false',
        b"Traceback (most recent call last):",
        b"}",
        STAMP + b"   json = {",
        b"}",
        b"step 1",
    ]
    assert split(lines)[1] == [lines[1], lines[4], lines[8]]


def test_a_print_that_never_ends_is_given_up() -> None:
    lines = [STAMP + b" DeepSpeedEngine configuration:", *[STAMP + b"   a .... 1"] * 1500]
    folded, shown, dump = split([*lines, b"other", STAMP + b"   b .... 1"])
    assert dump is None
    assert shown == [b"other", STAMP + b"   b .... 1"]
    assert len(folded) == 1501
