"""How a run ended, for the command of `--on-exit`: as variables of its environment."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from zlaunch.run.record import FINISHED, STOPPED, RunRecord

VARIABLES = (
    "ZLAUNCH_RUN_ID",
    "ZLAUNCH_RUN_NAME",
    "ZLAUNCH_RUN_DIR",
    "ZLAUNCH_LOGS",
    "ZLAUNCH_STATE",
    "ZLAUNCH_EXIT_CODE",
    "ZLAUNCH_FIRST_FAILURE",
    "ZLAUNCH_FIRST_FAILURE_HOST",
    "ZLAUNCH_CAUSE",
    "ZLAUNCH_SUMMARY",
    "ZLAUNCH_SECONDS",
    "ZLAUNCH_ATTEMPTS",
    "ZLAUNCH_RANKS",
)
"""All of them; each is always set, and empty where there is nothing to say."""

_LONGEST = 4096  # bytes of a cause; the kernel takes 128 KiB


def exit_facts(
    record: RunRecord, folder: str, logs: str, cause: str | None, summary: str
) -> dict[str, str]:
    """Return the variables of a run that is over; `cause` is the title of what was found.

    Times are in seconds, attempts count from 1 where a rank was started at all.
    """
    outcome = record.outcome or {}
    first = outcome.get("first_failure")
    seconds = (record.ended or record.started) - record.started
    values = (
        record.id,
        record.name,
        folder,
        logs,
        record.state,
        record.exit_code,
        first,
        _host(record, first),
        _cause(record, outcome, cause),
        summary,
        f"{seconds:.1f}",
        outcome.get("attempts", 0),
        record.world_size or None,
    )
    texts = ("" if value is None else str(value) for value in values)
    return dict(zip(VARIABLES, map(_one_line, texts), strict=True))


def _host(record: RunRecord, rank: Any) -> str | None:
    """By a name that says something to who reads it elsewhere."""
    if rank is None:
        return None
    host = record.plan["workers"][rank]["host"]
    return record.host or host if host == "localhost" else host


def _cause(record: RunRecord, outcome: Mapping[str, Any], cause: str | None) -> str | None:
    """Why it did not finish."""
    if record.state == FINISHED:
        return None
    if outcome.get("slurm") and cause:  # how Slurm ended the job
        return cause
    if record.state == STOPPED:
        return f"stopped by {signal.Signals(outcome['stopped_by']).name}"
    first = outcome.get("first_failure")
    if first is None:
        return outcome.get("limit") or outcome.get("trouble") or cause
    end = outcome.get("exits", {}).get(str(first), {})
    how = f"signal {end['signal']}" if end.get("signal") else f"exit code {record.exit_code}"
    return cause or how


def _one_line(text: str) -> str:
    """What any program takes as one line of an environment."""
    line = " ".join(text.replace("\0", "").split()) if "\n" in text else text.replace("\0", "")
    return line.encode("utf-8", "surrogateescape")[:_LONGEST].decode("utf-8", "surrogateescape")
