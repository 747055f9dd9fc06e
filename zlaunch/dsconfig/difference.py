"""What differs between two configs, key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.frozen import frozen


class _Absent:
    """Stands for a key that is not there; `null` is a value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


@frozen
class Difference:
    """One key, by its path; `before` or `after` is ABSENT where only the other has it."""

    path: str
    before: Any
    after: Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return every key that differs, in the order of `before`, then of `after`.

    Sections are compared key by key; a section that only one has is told key by key too. 1 and
    1.0 are the same number, 1 and true are not.
    """
    return tuple(_compare(before, after, ""))


def _compare(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if isinstance(before, Mapping) or isinstance(after, Mapping):
        ours = before if isinstance(before, Mapping) else {}
        theirs = after if isinstance(after, Mapping) else {}
        keys = dict.fromkeys((*ours, *theirs))
        if keys and _section(before) and _section(after):
            for key in keys:
                below = f"{path}.{key}" if path else key
                yield from _compare(ours.get(key, ABSENT), theirs.get(key, ABSENT), below)
            return
    if not _same(before, after):
        yield Difference(path, before, after)


def _section(value: Any) -> bool:
    return value is ABSENT or isinstance(value, Mapping)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
