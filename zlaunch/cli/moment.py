"""Moments as people type them: `10m` ago, `14:05`, `2026-11-30T14:05:00+01:00`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from zlaunch.errors import InputError

_AGO = re.compile(r"(?:\d{1,9}(?:\.\d{1,6})?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}  # seconds


def parse_moment(text: str, option: str, now: datetime) -> float:
    """The moment that `text` means, in seconds since the epoch; `now` has the zone of this place.

    Raises InputError where it is none, or has yet to come.
    """
    wanted = text.strip()
    if _AGO.fullmatch(wanted):
        ago = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(wanted))
        return max(0.0, now.timestamp() - ago)
    moment = _at_clock(wanted, now) or _at_date(wanted)
    if moment is None:
        raise InputError(
            f"{option} {text!r} is no time",
            hint="write how long ago (90s, 10m, 2h, 1d), 14:05, or 2026-11-30T14:05",
        )
    if moment > now:
        raise InputError(f"{option} {text} has yet to come", hint="10m is ten minutes ago")
    return moment.timestamp()


def _at_clock(text: str, now: datetime) -> datetime | None:
    """The last time that a clock here showed this."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups())
    try:
        today = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    except ValueError:
        return None
    return today if today <= now else today - timedelta(days=1)


def _at_date(text: str) -> datetime | None:
    """The moment of an ISO date or time, of this place where it has no zone."""
    try:
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        return moment if moment.tzinfo is not None else moment.astimezone()
    except (ValueError, OverflowError):  # 0001-01-01 is before all that a clock here can tell
        return None
