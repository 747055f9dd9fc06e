"""--since: moments as people type them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from zlaunch.cli.moment import parse_moment
from zlaunch.errors import InputError

NOW = datetime(2026, 11, 30, 14, 30, 15, tzinfo=timezone(timedelta(hours=1)))


def ago(text: str) -> float:
    return NOW.timestamp() - parse_moment(text, "--since", NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("0s", 0),
        (" 2w ", 1209600),
        ("14:30", 15),
        ("14:30:10", 5),
        ("14:31", 86400 - 45),  # has yet to come today
        ("2026-11-30T14:30:00+01:00", 15),
        ("2026-11-30 13:30:00Z", 15),
        ("2026-11-29T13:30:15+00:00", 86400),
    ],
)
def test_moments(text: str, seconds: float) -> None:
    assert ago(text) == pytest.approx(seconds)


def test_without_a_zone_it_is_the_time_of_this_place() -> None:
    expected = datetime(2026, 11, 28, 12).astimezone().timestamp()
    assert parse_moment("2026-11-28T12:00", "--since", NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "10", "10 minutes", "-10m", "25:00", "m", "2026-13-01", "0001-01-01"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(InputError, match="is no time"):
        parse_moment(text, "--since", NOW)


def test_what_has_yet_to_come() -> None:
    with pytest.raises(InputError, match="yet to come"):
        parse_moment("2027-01-01", "--since", NOW)
