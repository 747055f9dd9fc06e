"""What stands in the cells of the view of a run. Pure."""

from __future__ import annotations

import signal
import unicodedata
from collections.abc import Mapping
from typing import Any

from zlaunch.launcher.report import duration
from zlaunch.run.rank_states import ENDED, LOST, REFUSED

Rank = Mapping[str, Any]
Snapshot = Mapping[str, Any]

GIB = 1 << 30


def number(value: Any, digits: int = 4) -> str:
    """`2.31`, `1e-04`, `nan`; empty where it is not known."""
    return "" if value is None else value if isinstance(value, str) else f"{value:.{digits}g}"


def scale(value: Any) -> str:
    """A loss scale: `65536`, `2^32`."""
    if isinstance(value, (int, float)) and value >= 1 << 20 and float(value).hex()[:5] == "0x1.0":
        return f"2^{int(value).bit_length() - 1}"
    return number(value, 6)


def gib(value: Any) -> str:
    """Bytes, in GiB: `0.21`, `71.3`."""
    if value is None:
        return ""
    size = value / GIB
    return f"{size:.2f}" if size < 10 else f"{size:.1f}"


def cores(value: Any) -> str:
    """Cores that are busy: `0.97`, `12.3`."""
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def state(rank: Rank) -> str:
    """`running`, `exit 3`, `SIGKILL`."""
    if rank["state"] != ENDED:
        return str(rank["state"])
    if rank.get("signal") is None:
        return f"exit {rank.get('code', '?')}"
    try:
        return signal.Signals(rank["signal"]).name
    except ValueError:
        return f"signal {rank['signal']}"


def failed(rank: Rank) -> bool:
    """Whether a rank did not end well."""
    bad_end = rank["state"] == ENDED and (rank.get("code") != 0 or rank.get("signal") is not None)
    return bad_end or rank["state"] in {REFUSED, LOST}


def mark(rank: Rank) -> str:
    """What a rank is marked with."""
    if rank.get("out_of_memory"):
        return "OUT OF MEMORY"
    return "overflow" if rank.get("overflow") else ""


def age(seconds: Any) -> str:
    """`3 s`, `2:05 min`."""
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 60 else duration(seconds)


def width_of(text: str) -> int:
    """Columns that a text takes on a screen."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) != 0 for sign in text)
