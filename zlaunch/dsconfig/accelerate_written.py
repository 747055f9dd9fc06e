"""An Accelerate file as it is written: its fields at the top and below deepspeed_config."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from zlaunch.dsconfig.accelerate_fields import TOP, whole_number
from zlaunch.dsconfig.document import Document, Where
from zlaunch.dsconfig.finding import Finding, Level

SECTION = "deepspeed_config"
CONFIG_FILE = "deepspeed_config_file"


class Written:
    """What stands in an Accelerate file, and where."""

    def __init__(self, document: Document) -> None:
        self.document = document

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The fields of deepspeed_config."""
        section = self.document.value.get(SECTION)
        return section if isinstance(section, dict) else {}

    @cached_property
    def top(self) -> dict[str, Any]:
        """The fields at the top.

        Accelerate lays the fields of all sections over its own options, and finds them there.
        """
        moved = {name: value for name, value in self.fields.items() if name in TOP}
        return {**self.document.value, **moved}

    def at(self, name: str) -> Where:
        """Where a field of the top is written."""
        return (SECTION, name) if name in self.fields else (name,)

    def finds(
        self, level: Level, code: str, where: Where, text: str, mend: str = "", *, key: bool = False
    ) -> Finding:
        """A finding at a path, placed at its value or at its key."""
        place = self.document.place(where, of_value=not key)
        return Finding(code, level, ".".join(map(str, where)), place, text, mend)

    @property
    def processes(self) -> int | None:
        """The processes on all machines; None where that is left to the command line."""
        number = whole_number(self.top.get("num_processes"))
        return number if number is not None and number > 0 else None

    @property
    def machines(self) -> int:
        """On how many machines they are started."""
        number = whole_number(self.top.get("num_machines"))
        return number if number is not None and number > 0 else 1

    @property
    def config_file(self) -> str | None:
        """The path of the ds_config that is named; Accelerate takes the word none for none."""
        named = self.fields.get(CONFIG_FILE)
        return named if isinstance(named, str) and named != "none" else None
