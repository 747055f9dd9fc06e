"""What a report is made of, read from a run directory or from the log of any launcher."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from zlaunch.cli.log_file import read_log
from zlaunch.cli.one_run import ending, no_ranks_yet
from zlaunch.cli.past_run import diagnosis_of, evidence_of
from zlaunch.cli.report_changes import Changes, changes_of
from zlaunch.cli.report_numbers import curves_of_log, curves_of_run
from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.insight.curves import Curves
from zlaunch.insight.evidence import Diagnosis, Evidence
from zlaunch.insight.peer_log_exits import Exits
from zlaunch.launcher.report import duration
from zlaunch.run.record import RUNNING, RunRecord
from zlaunch.run.timeline import Timeline, timeline
from zlaunch.spec.ranks import describe_ranks
from zlaunch.spec.slots import gpu_in_words
from zlaunch.system.rundir import RunDir

_NODES = 64  # listed


@frozen
class Material:
    """All that is known. `until` is the last moment of which anything is.

    `timed`: the times of the curves are times, else numbers of lines.
    """

    title: str
    state: str
    headline: str
    facts: tuple[tuple[str, str], ...]
    evidence: Evidence
    diagnosis: Diagnosis
    curves: Curves
    timed: bool
    timeline: Timeline
    until: float
    devices: Mapping[int, str]
    config: Mapping[str, Any] | None = None
    changes: Changes | None = None
    of_log: bool = False
    guessed: bool = False
    notes: tuple[str, ...] = ()


# Of a run


def of_run(run: RunDir, now: float) -> Material:
    """Read a run, whether it is over or not.

    Raises ZlaunchError where its record cannot be read.
    """
    record = run.read_record()
    evidence = evidence_of(run, record)
    events = run.read_events()
    told = timeline(events, record.world_size, over=record.state != RUNNING)
    numbers = curves_of_run(run, record, told.attempts)
    return Material(
        title=f"{record.name} ({record.id})" if record.name else record.id,
        state=record.state,
        headline=_headline(record, told, now),
        facts=tuple(_facts(run, record, told, numbers.curves)),
        evidence=evidence,
        diagnosis=diagnosis_of(run, record, evidence),
        curves=numbers.curves,
        timed=numbers.timed,
        timeline=told,
        until=_until(record, told, numbers.curves if numbers.timed else None, now),
        devices=_devices(record),
        config=evidence.config,
        changes=changes_of(evidence.config, record),
        notes=numbers.notes,
    )


def _headline(record: RunRecord, told: Timeline, now: float) -> str:
    if waits := no_ranks_yet(record):
        return waits
    ranks = f"{record.world_size} rank{'s' if record.world_size != 1 else ''}"
    restarts = told.attempts - 1
    again = f", restarted {restarts} time{'s' if restarts > 1 else ''}" if restarts > 0 else ""
    if record.state == RUNNING:
        went = f"is running, for {duration(max(0.0, now - record.started))} so far"
    elif record.ended is None:
        went = ending(record)
    else:
        went = f"{ending(record)} after {duration(max(0.0, record.ended - record.started))}"
    return f"{ranks}; {went}{again}"


def _facts(
    run: RunDir, record: RunRecord, told: Timeline, curves: Curves
) -> Iterator[tuple[str, str]]:
    yield "Run", record.id
    if record.name:
        yield "Name", record.name
    yield "Command", shlex.join(record.command)
    yield "Directory", record.cwd
    if isinstance(recipe := record.plan.get("recipe"), str):
        yield "Recipe", recipe
    yield "Ranks", "; ".join(_nodes(record)) or str(record.world_size)
    if curves.step is not None:
        yield "Steps", f"{curves.step:,}" + (f" of {curves.total:,}" if curves.total else "")
    yield "Started", _clock(record.started)
    if record.ended is not None:
        yield "Ended", _clock(record.ended)
    if record.exit_code is not None:
        yield "Exit code", str(record.exit_code)
    yield "Attempts", str(told.attempts)
    meeting = record.plan.get("rendezvous")
    if isinstance(meeting, Mapping) and meeting.get("address"):
        yield "Rendezvous", f"{meeting.get('address')}:{meeting.get('port')}"
    yield "Launcher", f"zlaunch {record.version}" + (f" on {record.host}" if record.host else "")
    yield "Run directory", str(run.path)


def _nodes(record: RunRecord) -> list[str]:
    """`gpu01: ranks 0-7`, for each node."""
    ranks: dict[str, list[int]] = {}
    for rank, worker in _workers(record).items():
        ranks.setdefault(str(worker.get("host", "?")), []).append(rank)
    told = [f"{host}: {describe_ranks(frozenset(of))}" for host, of in ranks.items()]
    return told if len(told) <= _NODES else [*told[:_NODES], f"and {len(told) - _NODES} nodes"]


def _workers(record: RunRecord) -> dict[int, Mapping[str, Any]]:
    workers = record.plan.get("workers")
    listed = workers if isinstance(workers, list) else []
    return {
        worker["rank"]: worker
        for worker in listed
        if isinstance(worker, dict) and isinstance(worker.get("rank"), int)
    }


def _devices(record: RunRecord) -> dict[int, str]:
    found = {}
    for rank, worker in _workers(record).items():
        env = worker.get("env")
        on_cpu = isinstance(env, Mapping) and env.get("DS_ACCELERATOR") == "cpu"
        found[rank] = "CPU" if on_cpu else gpu_in_words(worker.get("slot", "?"))
    return found


def _until(record: RunRecord, told: Timeline, curves: Curves | None, now: float) -> float:
    if record.state == RUNNING:
        return now
    known = [record.started, record.ended or 0.0, (curves and curves.last_at) or 0.0]
    return max([*known, *(span.ended or span.began for span in told.spans)])


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at))


# Of a log


def of_log(name: str) -> Material:
    """Read a log that any launcher printed; `-` is stdin.

    Raises InputError where it cannot be read.
    """
    from zlaunch.insight.diagnosis import diagnose

    if name != "-" and Path(name).is_dir():
        raise InputError(f"{name} is a directory", hint="--file takes the log itself")
    try:
        with tempfile.TemporaryFile() if name == "-" else Path(name).open("rb") as file:
            if name == "-":
                shutil.copyfileobj(sys.stdin.buffer, file)
                file.seek(0)
            return _of_file(file, name, diagnose)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}", hint="--file takes a log") from error


def _of_file(file: BinaryIO, name: str, diagnose: Any) -> Material:
    reading = read_log(file)
    file.seek(0)
    curves = curves_of_log(file)
    evidence = reading.evidence
    diagnosis = diagnose(evidence)
    failed = bool(diagnosis.causes or diagnosis.culprits)
    count = len(evidence.world)
    ranks = f"{count} rank{'s' if count > 1 else ''}; " if count else ""
    facts = [("Log", "stdin" if name == "-" else os.path.abspath(name))]  # noqa: PTH100
    if evidence.launcher != Exits().launcher:  # which is what it is called where it is not known
        facts.append(("Launcher", evidence.launcher))
    if curves.step is not None:
        facts.append(
            ("Steps", f"{curves.step:,}" + (f" of {curves.total:,}" if curves.total else ""))
        )
    return Material(
        title="stdin" if name == "-" else Path(name).name,
        state="failed" if failed else "log",
        headline=ranks + ("it failed" if failed else "no failure was found"),
        facts=tuple(facts),
        evidence=evidence,
        diagnosis=diagnosis,
        curves=curves,
        timed=False,
        timeline=Timeline(),
        until=0.0,
        devices={},
        of_log=True,
        guessed=reading.guessed,
    )
