"""A slot, one accelerator of a host, and the lists of slots that people type.

Travels to the agent with GPU discovery, so it stays within Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Union

from zlaunch.errors import SelectionError

# An index, or a GPU-... or MIG-... identifier as it was typed.
Slot = Union[int, str]

MAX_SLOTS = 1024  # of one host; a larger number is a slip of the hand

_INDEX = re.compile(r"[0-9]{1,9}")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_IDENTIFIER = re.compile(r"(?:GPU|MIG)-[!-+\--~]+")


def parse_slot(token: str) -> Slot | None:
    """Read one index or GPU-/MIG- identifier; None if `token` is neither."""
    if _INDEX.fullmatch(token):
        return int(token)
    return token if _IDENTIFIER.fullmatch(token) else None


def parse_slots(text: str, option: str) -> tuple[Slot, ...]:
    """Read a list such as `0,2`, `0-3,6` or `GPU-1a2b,MIG-3c4d`, in the order typed.

    Blanks around the commas do not count. Repeated slots are kept: whether they are an
    error is for the caller to say. `option` begins the messages.
    """
    slots: list[Slot] = []
    for token in (part.strip() for part in text.split(",")):
        span = _RANGE.fullmatch(token)
        slot = parse_slot(token)
        if span:
            slots += _span(int(span[1]), int(span[2]), f"{option} {text!r}")
        elif slot is not None:
            slots.append(slot)
        else:
            raise SelectionError(
                f"{option} {text!r} holds {token!r} where a slot is expected",
                hint="slots are indices (0,2), ranges (0-3), or GPU-... and MIG-... identifiers",
            )
    return tuple(slots)


def format_slots(slots: Sequence[Slot]) -> str:
    """Write `slots` as they may be typed, with a range for three or more in a row."""
    runs: list[list[Slot]] = []
    for slot in slots:
        last = runs[-1][-1] if runs else None
        if isinstance(slot, int) and isinstance(last, int) and slot == last + 1:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return ",".join(_format_run(run) for run in runs)


def gpu_in_words(slot: object) -> str:
    """`GPU 3`; an identifier says by itself what it is."""
    text = str(slot)
    return text if _IDENTIFIER.fullmatch(text) else f"GPU {text}"


def gpus_in_words(slots: Sequence[Slot]) -> str:
    """`GPU 3`, `GPUs 0-3`, `GPU-1a2b,MIG-3c4d`."""
    if any(isinstance(slot, str) for slot in slots):
        return format_slots(slots)
    return f"GPU{'s' if len(slots) > 1 else ''} {format_slots(slots)}"


def _span(first: int, last: int, what: str) -> range:
    if last < first:
        raise SelectionError(f"{what} has a range that runs backwards: {first}-{last}")
    if last - first >= MAX_SLOTS:
        raise SelectionError(f"{what} has a range of more than {MAX_SLOTS} slots: {first}-{last}")
    return range(first, last + 1)


def _format_run(run: list[Slot]) -> str:
    return f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(str(slot) for slot in run)
