"""What is remembered of a run: the content of its run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from zlaunch.frozen import frozen

if TYPE_CHECKING:  # who only reads records needs no messages
    from zlaunch.run.messages import Exited
    from zlaunch.run.outcome import Outcome

_LAST_SECOND = 1e11  # a time beyond is none
_MOST_RANKS = 1 << 20  # more have no place in memory

RUNNING, FINISHED, FAILED, STOPPED, LOST = "running", "finished", "failed", "stopped", "lost"
GATHERING, QUEUED = "gathering", "queued"


@frozen
class RunRecord:
    """One run. Times are seconds since the epoch; `command` and `plan` are redacted.

    `host` is the machine of the launcher, whose own name for itself it is.

    `state` is one of running, finished (all ranks 0), failed, stopped (by a signal to
    zlaunch); lost is never written: it is what a running record without a launcher means.
    `gathering` says for what others a running run waits before it can be planned; until then
    its `world_size` is 0. `slurm_job` is the job of Slurm's that the run is in, "" for none, and
    `slurm_since` when this launcher began there. A queued run waits for Slurm to start its job, or
    to start it again; `submitted` tells of that job: `job`; `at`, when it was submitted; `attempts`
    in earlier starts of it; of an array's task `array`, what the ids of all begin with, and
    `array_name`.
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
    host: str = ""
    ended: float | None = None
    exit_code: int | None = None
    outcome: Mapping[str, Any] | None = None
    gathering: str | None = None
    slurm_job: str = ""
    slurm_since: float = 0.0
    submitted: Mapping[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it neither runs nor is to run."""
        return self.state not in (RUNNING, QUEUED)

    @property
    def job(self) -> str:
        """How Slurm calls the job that the run was submitted as; "" where it was not."""
        return str((self.submitted or {}).get("job") or "")

    @property
    def attempts_before(self) -> int:
        """How many attempts were made in earlier starts of its job."""
        return int((self.submitted or {}).get("attempts") or 0)

    @property
    def shown_state(self) -> str:
        """The state, or gathering."""
        gathers = self.state == RUNNING and self.gathering is not None
        return GATHERING if gathers else self.state

    @property
    def nothing_started(self) -> bool:
        """Whether the run ended before any rank was started."""
        if self.outcome is None:
            return False
        return not self.outcome.get("exits") and not self.outcome.get("attempts")

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
        times = (self.started, 0.0 if self.ended is None else self.ended, self.slurm_since)
        names = (self.id, self.name or "", self.host, self.slurm_job)
        texts = (*names, self.state, self.cwd, *self.command)
        good = (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(at, (int, float)) and 0 <= at < _LAST_SECOND for at in times)
            and isinstance(self.world_size, int)
            and 0 <= self.world_size <= _MOST_RANKS
            and isinstance(self.plan, Mapping)
            and isinstance(self.launcher_pid, int)
            and isinstance(self.exit_code, (int, type(None)))
            and isinstance(self.gathering, (str, type(None)))
            and isinstance(self.submitted, (Mapping, type(None)))
            and (self.outcome is None or _is_outcome(self.outcome))
        )
        if not good:
            raise TypeError("a value is not of its type")

    def ended_with(self, outcome: Outcome, at: float) -> RunRecord:
        """Return the record of the finished run."""
        stopped = outcome.stopped_by is not None and outcome.limit is None
        if stopped and outcome.first_failure is None:
            state = STOPPED
        else:
            state = FAILED if outcome.exit_code else FINISHED
        return replace(
            self, state=state, ended=at, exit_code=outcome.exit_code, outcome=_describe(outcome)
        )


def is_event(data: object) -> bool:
    """Whether it may be a line of events.jsonl: what has another type is not looked into."""
    if not isinstance(data, Mapping) or not isinstance(data.get("event"), str):
        return False
    at, rank, pid = (data.get(name, 0) for name in ("at", "rank", "pid"))
    return (
        isinstance(at, (int, float))
        and 0 <= at < _LAST_SECOND
        and isinstance(rank, int)
        and isinstance(pid, int)
        and isinstance(data.get("exit", {}), Mapping)
    )


def _is_outcome(data: object) -> bool:
    """Whether it may be what `_describe` gave, or an older version."""
    if not isinstance(data, Mapping):
        return False
    exits, attempts = data.get("exits") or {}, data.get("attempts") or 0
    return (
        isinstance(attempts, int)
        and isinstance(exits, Mapping)
        and all(rank.isdecimal() and isinstance(end, Mapping) for rank, end in exits.items())
    )


def _describe(outcome: Outcome) -> dict[str, Any]:
    first = outcome.first_failure
    return {
        "first_failure": None if first is None else first.rank,
        "stopped_by": outcome.stopped_by,
        "trouble": outcome.trouble,
        "limit": outcome.limit,
        "attempts": outcome.attempts,
        "slurm": None if outcome.job_end is None else outcome.job_end.to_json(),
        "exits": {str(rank): _describe_end(end) for rank, end in sorted(outcome.exits.items())},
        "past": [
            {
                "attempt": attempt.number,
                "seconds": attempt.seconds,
                "first_failure": attempt.first_failure.rank,
                **_describe_end(attempt.first_failure),
            }
            for attempt in outcome.past
        ],
    }


def _describe_end(end: Exited) -> dict[str, Any]:
    how = {"code": end.exit.code, "signal": end.exit.signal, "at": end.at}
    if not end.exit.status:
        return how
    return {**how, "told": end.told, "signs": dict(end.signs)}
