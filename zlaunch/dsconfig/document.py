"""A ds_config as it was written: its value, and the line and column of every key in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from zlaunch.frozen import frozen

# List items are numbered: ("optimizer", "params", "betas", 1).
Where: TypeAlias = "tuple[str | int, ...]"


@frozen
class Position:
    """A position in a text; both numbers count from 1."""

    line: int
    column: int


@frozen
class Oddity:
    """Something in the text that JSON does not have.

    `fatal` where DeepSpeed cannot read it, or reads something else than was meant; else hjson
    has it, and DeepSpeed reads the file all the same. `text` and `mend` are for the user.
    """

    code: str
    place: Position
    text: str
    mend: str
    fatal: bool = False
    where: Where = ()


@frozen
class Document:
    """A config and where its keys and values stand; a place that is not known is not there.

    `complete` is false where the text could not be read to its end: what is missing in `value`
    may then be there in the file.
    """

    value: Any
    keys: Mapping[Where, Position] = field(default_factory=dict)
    values: Mapping[Where, Position] = field(default_factory=dict)
    oddities: tuple[Oddity, ...] = ()
    complete: bool = True

    def place(self, where: Where, *, of_value: bool = False) -> Position | None:
        """The place of a key, or of its value; of the nearest section around, where it has none."""
        for end in range(len(where), 0, -1):
            known = self.values if of_value and end == len(where) else self.keys
            found = known.get(where[:end]) or self.values.get(where[:end])
            if found is not None:
                return found
        return self.values.get(())
