"""A run that has ended, read from its directory into evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zlaunch.insight.evidence import Cause, Diagnosis, Evidence, RankEnd
from zlaunch.run.record import QUEUED, RunRecord
from zlaunch.system.run_stacks import kept_stacks
from zlaunch.system.rundir import RunDir
from zlaunch.system.tail import last_lines

if TYPE_CHECKING:
    from zlaunch.run.job_end import JobEnd

_LINES = 2000  # of a rank
_FEW = 300  # of a rank that did not fail, where there are many
_MANY = 64  # ranks


def evidence_of(run: RunDir, record: RunRecord) -> Evidence:
    """Read what the record, the logs and the error files say."""
    ends = _ends(run, record)
    return Evidence(
        ends,
        {rank: _words(run, rank, ends, record.world_size) for rank in range(record.world_size)},
        record.world_size,
        _config(run),
        _recipe(record),
        _hosts(record),
    )


def _ends(run: RunDir, record: RunRecord) -> dict[int, RankEnd]:
    outcome = record.outcome or {}
    attempt = max(0, int(outcome.get("attempts") or 1) - 1)
    ends = {}
    for name, end in (outcome.get("exits") or {}).items():
        rank = int(name)
        ends[rank] = RankEnd(
            rank,
            end.get("code"),
            end.get("signal"),
            end.get("at"),
            stopped=bool(end.get("told")),
            signs=end.get("signs") or {},
            error=_error(run, rank, attempt),
        )
    return ends


def _error(run: RunDir, rank: int, attempt: int) -> str:
    try:
        return run.error_file(rank, attempt).read_text("utf-8", "replace")
    except OSError:
        return ""


def _words(run: RunDir, rank: int, ends: Mapping[int, RankEnd], world: int) -> list[str]:
    end = ends.get(rank)
    failed = end is None or not (end.well or end.stopped)
    count = _LINES if failed or world <= _MANY else _FEW
    lines = last_lines(run, rank, run.last_attempt(rank))[-count:]
    return [line.decode("utf-8", "backslashreplace") for line in lines]


def _config(run: RunDir) -> Mapping[str, object] | None:
    try:
        config = json.loads(run.ds_config.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def _recipe(record: RunRecord) -> str | None:
    recipe: Any = record.plan.get("recipe")
    return recipe if isinstance(recipe, str) else None


def _hosts(record: RunRecord) -> dict[int, str]:
    try:
        return {worker["rank"]: worker["host"] for worker in record.plan["workers"]}
    except (KeyError, TypeError):
        return {}


def limit_of(run: RunDir, record: RunRecord) -> Cause | None:
    """The limit of the user's that ran out, as a cause; of a hang also where the ranks were."""
    words = str((record.outcome or {}).get("limit") or "").strip()
    if not words:
        return None
    if "--hang-timeout" not in words:
        return Cause("limit-ran-out", (), words)
    where: tuple[str, ...] = ()
    kept = kept_stacks(run)
    if kept:
        with suppress(OSError):
            head = kept[-1].read_text("utf-8", "replace").partition("\n\n")[0]
            where = (*head.splitlines()[1:], f"the stacks of all: {kept[-1]}")
    return Cause("hang", (), words, where)


def trouble_of(record: RunRecord) -> Cause | None:
    """What zlaunch itself could not do, as a cause."""
    outcome = record.outcome or {}
    words = str(outcome.get("trouble") or "").strip()
    if record.nothing_started:
        if not words and (outcome.get("limit") or outcome.get("stopped_by")):
            return None  # that one says it all
        return Cause("nothing-started", (), f"no rank was started: {words or 'no reason is known'}")
    return Cause("zlaunch-trouble", (), f"zlaunch: {words}") if words else None


def job_end_of(run: RunDir, record: RunRecord) -> JobEnd | None:
    """Return how Slurm ended the job that a run was in, or how that stands, if it tells."""
    if not record.slurm_job:
        return None
    from zlaunch.cli import job_end  # who is in no job does not pay for it

    return job_end.job_end_of(run, record)


def diagnosis_of(run: RunDir, record: RunRecord, evidence: Evidence) -> Diagnosis:
    """Judge the evidence, together with what ended the run beside its ranks."""
    from zlaunch.insight.diagnosis import diagnose

    diagnosis = diagnose(evidence)
    limit, trouble = limit_of(run, record), trouble_of(record)
    job_end = job_end_of(run, record)
    if job_end is not None and job_end.code:  # its words are the limit too
        from zlaunch.insight.job_causes import of_evidence

        causes = [*diagnosis.causes, *([trouble] if trouble is not None else ())]
        return replace(diagnosis, causes=of_evidence(causes, job_end))
    if limit is not None:  # what ranks print while they are stopped for it is an effect
        diagnosis = replace(diagnosis, causes=(limit, *diagnosis.causes))
    if trouble is not None:  # after the ranks' own causes, of which it may be an effect
        diagnosis = replace(diagnosis, causes=(*diagnosis.causes, trouble))
    return diagnosis


def not_ended(run: RunDir, record: RunRecord) -> str:
    """What to say first about a run whose end is not known; empty for one that ended."""
    if record.outcome is not None:
        return ""
    if record.state == QUEUED:
        return f"run {record.id} is queued; this is what its ranks printed so far"
    how = "is still running" if run.launcher_lives() else "was lost with its launcher"
    return f"run {record.id} {how}; this is what its ranks printed so far"
