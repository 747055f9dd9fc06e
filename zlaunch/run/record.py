"""What is remembered of a run: the content of its run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from zlaunch.run.outcome import Outcome

_LAST_SECOND = 1e11  # a time beyond is none

RUNNING, FINISHED, FAILED, STOPPED, LOST = "running", "finished", "failed", "stopped", "lost"


@dataclass(frozen=True)
class RunRecord:
    """One run. Times are seconds since the epoch; `command` and `plan` are redacted.

    `state` is one of running, finished (all ranks 0), failed, stopped (by a signal to
    zlaunch); lost is never written: it is what a running record without a launcher means.
    """

    id: str
    name: str | None
    state: str
    started: float
    command: tuple[str, ...]
    cwd: str
    world_size: int
    plan: Mapping[str, Any]
    launcher_pid: int
    version: str
    ended: float | None = None
    exit_code: int | None = None
    outcome: Mapping[str, Any] | None = None

    @property
    def nothing_started(self) -> bool:
        """Whether the run ended before any rank was started."""
        return self.outcome is not None and not self.outcome.get("exits")

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunRecord:
        """Read what `to_json` gave; unknown keys of a newer version are left aside.

        Raises KeyError or TypeError where it is no record.
        """
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        record = cls(**{**known, "command": tuple(data["command"])})
        record._check()
        return record

    def _check(self) -> None:
        """Hold what is read to its types, on which others rely."""
        times = (self.started, 0.0 if self.ended is None else self.ended)
        texts = (self.id, self.state, self.cwd, self.name or "", *self.command)
        good = (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(at, (int, float)) and 0 <= at < _LAST_SECOND for at in times)
            and isinstance(self.world_size, int)
            and self.world_size > 0
            and isinstance(self.plan, Mapping)
            and isinstance(self.launcher_pid, int)
            and isinstance(self.exit_code, (int, type(None)))
        )
        if not good:
            raise TypeError("a value is not of its type")

    def ended_with(self, outcome: Outcome, at: float) -> RunRecord:
        """Return the record of the finished run."""
        if outcome.stopped_by is not None and outcome.first_failure is None:
            state = STOPPED
        else:
            state = FAILED if outcome.exit_code else FINISHED
        return replace(
            self, state=state, ended=at, exit_code=outcome.exit_code, outcome=_describe(outcome)
        )


def _describe(outcome: Outcome) -> dict[str, Any]:
    first = outcome.first_failure
    return {
        "first_failure": None if first is None else first.rank,
        "stopped_by": outcome.stopped_by,
        "trouble": outcome.trouble,
        "exits": {
            str(rank): {"code": end.exit.code, "signal": end.exit.signal, "at": end.at}
            for rank, end in sorted(outcome.exits.items())
        },
    }
