"""What lint found in a ds_config, and what it has to know to find it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from zlaunch.dsconfig.document import Document, Position, Where
from zlaunch.dsconfig.schema import Schema
from zlaunch.dsconfig.target import Target
from zlaunch.dsconfig.values import number_in
from zlaunch.frozen import frozen

# error: training fails, or is not what was written; warning: something has no effect, or is not
# what it looks like; note: good to know.
Level: TypeAlias = Literal["error", "warning", "note"]
_LARGEST = 2**63 - 1
_COUNTABLE = 1e300  # no arithmetic with these overflows, nor with an integer below
_WRITABLE = 4000  # bits of an integer; Python writes no more than 4300 digits
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


@frozen
class Finding:
    """One thing to know about a config; `path` is dotted, "" for the whole of it."""

    code: str
    level: Level
    path: str
    place: Position | None
    text: str
    mend: str = ""

    def to_json(self) -> dict[str, Any]:
        """As data."""
        line, column = (self.place.line, self.place.column) if self.place else (None, None)
        return {
            "code": self.code,
            "level": self.level,
            "path": self.path or None,
            "line": line,
            "column": column,
            "text": self.text,
            "mend": self.mend or None,
        }


@frozen
class Disk:
    """A path for NVMe offload, as this machine has it; `free` in bytes where it is known.

    `makeable`: it is not there, and DeepSpeed could make it in a directory that is.
    """

    exists: bool
    directory: bool = False
    writable: bool = False
    makeable: bool = False
    free: int | None = None


@frozen
class Around:
    """The circumstances of a config.

    `world_size`, `cpu`, and `bf16` and `fp16` (what the devices compute in) are None where they
    are not known; `direct` where the reader gets the file itself, and not what zlaunch writes
    from it. `disks` are the paths for NVMe offload that could be looked at, `parameters` the
    size of the model.
    """

    schema: Schema
    target: Target = "plain"
    world_size: int | None = None
    bf16: bool | None = None
    fp16: bool | None = None
    cpu: bool | None = None
    direct: bool = True
    disks: Mapping[str, Disk] = field(default_factory=dict)
    parameters: int | None = None


@frozen
class Look:
    """A document with its circumstances: what every check gets."""

    document: Document
    around: Around

    @property
    def config(self) -> Mapping[str, Any]:
        """The config; empty where the file holds something else."""
        value = self.document.value
        return value if isinstance(value, dict) else {}

    @property
    def schema(self) -> Schema:
        """The keys of the DeepSpeed that will read it."""
        return self.around.schema

    def section(self, *path: str) -> Mapping[str, Any]:
        """The section at a path; empty where there is none."""
        value: Any = self.config
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    def get(self, *path: str) -> Any:
        """What is written at a path; None where nothing is, or null."""
        return self.section(*path[:-1]).get(path[-1])

    def number(self, *path: str) -> int | float | None:
        """The number that DeepSpeed will find at a path: written, or else its default."""
        value = self.get(*path)
        field = self.schema.field(*path)
        if isinstance(value, bool) and field is not None and field.lax:
            value = int(value) if "bool" not in field.kinds else value
        if value is None or value == "auto":
            value = field.default if field is not None else None
        elif isinstance(value, str):
            value = number_in(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return value if is_number and -_COUNTABLE < value < _COUNTABLE else None

    def finds(
        self,
        level: Level,
        code: str,
        where: Where,
        text: str,
        mend: str = "",
        *,
        at_value: bool = True,
    ) -> Finding:
        """A finding at a path, placed at its value or at its key."""
        place = self.document.place(where, of_value=at_value)
        return Finding(code, level, ".".join(map(str, where)), place, text, mend)


def is_sane(number: float) -> bool:
    """Whether a number is finite and no larger than any that DeepSpeed counts with."""
    return -_LARGEST <= number <= _LARGEST


def said(value: Any) -> str:
    """A value as JSON has it, cut short."""
    words = {True: "true", False: "false", None: "null"}
    if value is None or isinstance(value, bool):
        return words[value]
    if isinstance(value, (dict, list)):
        return "a section" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > _WRITABLE:
        return "a number of thousands of digits"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
