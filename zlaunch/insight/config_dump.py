"""DeepSpeed's print of its whole configuration at start: some 140 lines that nobody asked for.

Rank 0 prints it at level INFO (`DeepSpeedConfig.print`, all versions), the level that overflow
lines need. What is recognised is folded on the console; a line that does not belong is not.

    [TIME] [INFO] [PLACE] DeepSpeedEngine configuration:
    [TIME] [INFO] [PLACE]   aio_config ................... {'block_size': 1048576, ...}
    [TIME] [INFO] [PLACE]   checkpoint_config  {
        "tag_validation": "WARN"
    }
    [TIME] [INFO] [PLACE]   json = {
        ...
    }
"""

from __future__ import annotations

import re
from dataclasses import replace

from zlaunch.frozen import frozen

_BEGIN = b"DeepSpeedEngine configuration:"
_RECORD = re.compile(rb"\[[-0-9]+ [0-9:,]+\] \[INFO\] \[[^\]]*\] {3}(?P<item>\S.*)")
_LONGEST = 1000  # lines


@frozen
class Dump:
    """Where one rank's print stands; `folded` counts the lines that belong to it."""

    folded: int = 0
    in_value: bool = False
    is_last: bool = False
    over: bool = False


def begins(block: bytes) -> bool:
    """Say cheaply whether a print of the configuration begins in these whole lines."""
    return _BEGIN in block


def observe(dump: Dump | None, line: bytes) -> tuple[Dump | None, bool]:
    """Take in one line; return the state and whether the line belongs to the print.

    None stands for no print; one that is `over` has just ended with this line.
    """
    line = line.rstrip()
    if dump is None or dump.over:
        return (Dump(1), True) if line.endswith(_BEGIN) else (None, False)
    if dump.in_value:
        return _in_value(dump, line)
    found = _RECORD.fullmatch(line)
    if found is None:
        return (dump if dump.folded < _LONGEST else replace(dump, over=True)), False
    item = found["item"]
    opened = item.endswith(b"{")
    return replace(
        dump, folded=dump.folded + 1, in_value=opened, is_last=item.startswith(b"json = ")
    ), True


def _in_value(dump: Dump, line: bytes) -> tuple[Dump, bool]:
    closes = line == b"}"
    if not closes and not line.startswith(b"    "):
        return dump, False
    grown = replace(dump, folded=dump.folded + 1, in_value=not closes)
    return replace(grown, over=closes and dump.is_last), True
