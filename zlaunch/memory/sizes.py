"""Sizes and counts as people type them: `80GiB`, `80GB`, `24g`; `7b`, `350m`, `1.5e9`."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from zlaunch.errors import InputError

GIB = 1024**3
# Powers of two for the bare letters and the IEC names, as CUDA, Docker and Slurm take them;
# powers of ten where a B follows the letter, as disks and data sheets are labelled.
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*(?:([kmgtp])(i?)(b?)|b|bytes)?", re.I | re.ASCII)
_COUNT = re.compile(r"(\d{1,15}(?:[._]\d{1,9})?(?:e\d{1,2})?)\s*([kmbt]?)", re.I | re.ASCII)
_COUNTS = {"": 0, "k": 3, "m": 6, "b": 9, "t": 12}
_MOST = 10**18
_LEAST = 1024**2  # no GPU, host or disk is smaller: its unit was forgotten
# The largest published models have some 10^12.
MOST_PARAMETERS = 10**14


def parse_bytes(text: str, option: str, least: int = _LEAST) -> int:
    """The bytes that `text` means, no fewer than `least`; `option` is named in the error."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InputError(
            f"{option} {text!r} is no size", hint="write 80GiB, 80GB (10^9 bytes), 24g or bytes"
        )
    number, letter, binary, bytes_ = found[1], (found[2] or "").lower(), found[3], found[4]
    power = _POWERS.get(letter, 0)
    base = 1000 if letter and bytes_ and not binary else 1024
    size = Decimal(number) * base**power
    if 0 < size < least:
        meant = f"did you mean {number}{'GiB' if Decimal(number) < 4096 else 'MiB'}?"
        raise InputError(
            f"{option} {text!r} means {size.normalize():f} bytes, which is less than there is",
            hint=meant if not letter else "write 80GiB, 80GB (10^9 bytes) or 24g",
        )
    return _within(int(size), text, option, _MOST)


def parse_count(text: str, option: str) -> int:
    """The number that `text` means: `7b` is 7,000,000,000."""
    found = _COUNT.fullmatch(text.strip().replace(",", "").replace("_", ""))
    if found is None:
        several = re.fullmatch(r"\d+x[\d.]+[mb]", text.strip(), re.I)
        hint = "write 7b, 350m or 1.5e9"
        if several:
            hint = (
                "give the parameters of all experts together (Mixtral 8x7b has 46.7b), or --model"
            )
        raise InputError(f"{option} {text!r} is no number of parameters", hint=hint)
    value = Decimal(found[1]).scaleb(_COUNTS[found[2].lower()])
    return _within(int(value), text, option, MOST_PARAMETERS)


def _within(value: int, text: str, option: str, most: int) -> int:
    if not 0 < value <= most:
        raise InputError(f"{option} {text!r} has to be above 0 and at most 10^{len(str(most)) - 1}")
    return value


def gib(size: float) -> str:
    """`size` bytes in GiB with two digits, for tables; "0" only where there is nothing."""
    if size == 0:
        return "0"
    return f"{size / GIB:.2f}" if size >= GIB / 100 else "<0.01"


def human(size: float) -> str:
    """`size` bytes with its unit, for sentences."""
    if abs(size) >= GIB / 10:
        return f"{size / GIB:.1f} GiB"
    return f"{size / 1024**2:.0f} MiB"


def billions(count: int) -> str:
    """A number of parameters as people say it: 886,957,058 is 887 M."""
    if count >= 10**9:
        return f"{count / 1e9:.2f} B"
    return f"{count / 1e6:.0f} M" if count >= 10**6 else f"{count:,}"


def round_up(value: float, step: int) -> int:
    """The next multiple of `step`."""
    return math.ceil(value / step) * step
