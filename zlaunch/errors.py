"""The errors of zlaunch, each with its exit code.

    ZlaunchError                125  zlaunch or a backend failed
    ├── InputError                2  wrong input, found before anything was started
    │   ├── HostfileError            a hostfile line that cannot be read
    │   ├── SelectionError           hosts or devices that are not there
    │   ├── ConfigError              a recipe, override or ds_config that cannot be used
    │   └── BatchError               batch numbers that do not multiply out
    └── BackendError            125  an agent could not be reached or was lost
        └── TimeLimitError      124  a limit that the user may set ran out

A worker's failure is not an error of zlaunch: it is a value (`run.messages.Exited`)
that ends in an `Outcome`. Every message is one sentence that names the thing; `where`
is the place (`file:line:column`), `hint` the way out.
"""

from __future__ import annotations

from typing import ClassVar


class ZlaunchError(Exception):
    """An error whose text is meant for the user; printed without a traceback."""

    exit_code: ClassVar[int] = 125

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


class InputError(ZlaunchError):
    """What the user asked for cannot be done as written."""

    exit_code: ClassVar[int] = 2


class HostfileError(InputError):
    """A hostfile that cannot be read, with file and line."""


class SelectionError(InputError):
    """Hosts, slots or devices that were asked for and are not there."""


class ConfigError(InputError):
    """A recipe, override or ds_config that cannot be used."""


class BatchError(InputError):
    """Batch numbers that do not multiply out for the world size."""


class BackendError(ZlaunchError):
    """An agent could not be reached, or was lost."""


class TimeLimitError(BackendError):
    """A limit that the user may set ran out before all were there."""

    exit_code: ClassVar[int] = 124
