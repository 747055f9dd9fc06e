"""`--wait` with a value and without."""

from __future__ import annotations

import math

import pytest

from zlaunch.cli.waiting import read_duration, with_value
from zlaunch.errors import InputError

VALUED = ("--num-gpus", "-r", "--wait")


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("--wait job.py", "--wait=forever job.py"),
        ("--wait 2h job.py", "--wait=2h job.py"),
        ("--wait=2h job.py", "--wait=2h job.py"),
        ("--wait 90 job.py 90", "--wait=90 job.py 90"),
        ("--num_gpus 2 --wait job.py", "--num_gpus 2 --wait=forever job.py"),
        ("-r --wait job.py", "-r --wait job.py"),  # the value of -r, whatever that comes to
        ("-q --wait -d job.py", "-q --wait=forever -d job.py"),
        ("--wait", "--wait=forever"),
        ("job.py --wait 3", "job.py --wait 3"),  # the script's own
        ("-- --wait", "-- --wait"),
        ("-m pkg --wait", "-m pkg --wait"),
    ],
)
def test_a_value_that_may_be_left_out(typed: str, read: str) -> None:
    assert with_value(typed.split(), VALUED) == read.split()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, 0), ("forever", math.inf), ("90", 90), ("1.5s", 1.5), ("15m", 900), ("2h", 7200)],
)
def test_durations(text: str | None, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "2 h", "1w", "soon", "1e3", "inf"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match="no duration"):
        read_duration(text)
