"""What one line of a rank tells of its training, and the pieces that all kinds of lines share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from zlaunch.frozen import frozen

Value = int | float | bool

LONGEST = 4096
"""Only this many characters at the end of a longer line are looked at."""

NUMBER = r"[-+]?(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24})(?:[eE][-+]?[0-9]{1,4})?"
"""A number as Python prints it, without nan and inf."""

REAL = rf"(?:{NUMBER}|[-+]?(?:nan|NaN|NAN|inf|Infinity))"
"""One with them."""

TENSOR = r"(?:tensor\(|np\.float[0-9]{2}\()?"
"""What stands before a number that is printed as what it is."""

COUNT = r"[0-9]{1,15}(?![0-9])"
"""A number of steps."""


@frozen
class Told:
    """`source` is that of a Metric, `fields` are those of it that the line tells."""

    source: str
    fields: Mapping[str, Value]


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when the first line asks for it, so that a start does not wait for it."""
    return re.compile(pattern, re.ASCII)


def real(text: str) -> float:
    """Read what REAL matches."""
    return float(text)
