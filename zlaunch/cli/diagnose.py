"""`zlaunch diagnose`: why a run ended, of zlaunch or of any other launcher."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from zlaunch.cli import diagnosis_text
from zlaunch.cli.log_file import read_bounded
from zlaunch.cli.one_run import say
from zlaunch.cli.past_run import diagnosis_of, evidence_of, not_ended
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.errors import InputError
from zlaunch.insight.diagnosis import diagnose as judge
from zlaunch.insight.evidence import Cause, Diagnosis, Evidence
from zlaunch.insight.peer_log import Reading
from zlaunch.system.run_store import RunStore, home_directory

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def diagnose(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Id, beginning of one, or name; the latest."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="LOG", help="A log of any launcher; - for stdin."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Say why a run ended: the rank that failed, the cause, and the way out.

    With --file, of a log that torchrun, deepspeed, accelerate, srun -l or zlaunch printed.
    """
    if file is not None and run is not None:
        raise InputError("a run and --file are two things", hint="give one of them")
    with reader_may_leave():
        if file is not None:
            reading, cut = _read(file)
            if cut:
                say(f"{'stdin' if file == '-' else file}: {cut}")
            _show(judge(reading.evidence), reading, {"file": file}, as_json)
        else:
            _of_run(run, as_json)


def _of_run(reference: str | None, as_json: bool) -> None:
    found = RunStore(home_directory(os.environ)).find(reference)
    record = found.read_record()
    evidence = evidence_of(found, record)
    note = not_ended(found, record)
    if note and not as_json:
        typer.echo(note)
    diagnosis = diagnosis_of(found, record, evidence)
    _show(diagnosis, Reading(evidence, {}), {"run": record.id}, as_json)
    if not as_json:
        typer.echo(f"run {record.id} ({record.state}); logs in {found.logs}")


def _read(name: str) -> tuple[Reading, str]:
    """What the log says, and which part of it was read, if not all."""
    if name == "-":
        return read_bounded(sys.stdin.buffer)
    path = Path(name)
    if path.is_dir():
        raise InputError(f"{name} is a directory", hint="--file takes the log itself")
    try:
        with path.open("rb") as file:
            return read_bounded(file)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}", hint="--file takes a log") from error


def _show(diagnosis: Diagnosis, reading: Reading, source: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"source": source, **_as_json(diagnosis, reading)}, indent=2))
    else:
        typer.echo(diagnosis_text.text(diagnosis, reading.evidence, guessed=reading.guessed))


def _as_json(diagnosis: Diagnosis, reading: Reading) -> dict[str, Any]:
    return {
        "failed": bool(diagnosis.causes or diagnosis.culprits),
        "rank_is_guessed": reading.guessed,
        "causes": _causes(diagnosis.causes, reading.numbers),
        "culprits": [_culprit(rank, reading.evidence) for rank in diagnosis.culprits],
        "victims": [{"rank": rank, "why": why} for rank, why in diagnosis.victims.items()],
        "tracebacks": [
            {"ranks": list(one.ranks), "lines": list(one.lines)} for one in diagnosis.tracebacks
        ],
        "noticed": _causes(diagnosis.noticed, reading.numbers),
    }


def _causes(causes: Iterable[Cause], numbers: Mapping[int, Sequence[int]]) -> list[dict[str, Any]]:
    return [
        {
            "code": cause.code,
            "ranks": list(cause.ranks),
            "title": cause.title,
            "details": list(cause.details),
            "mends": list(cause.mends),
            "evidence": [
                {"rank": line.rank, "line": _number(numbers, line.rank, line.number),
                 "text": line.text}
                for line in cause.evidence
            ],
        }
        for cause in causes
    ]  # fmt: skip


def _number(numbers: Mapping[int, Sequence[int]], rank: int, number: int) -> int | None:
    """The line of the file, from 1; None for a run, of whose logs only the end was read."""
    lines = numbers.get(rank, ())
    return lines[number] if number < len(lines) else None


def _culprit(rank: int, evidence: Evidence) -> dict[str, Any]:
    end = evidence.ends.get(rank)
    return {
        "rank": rank,
        "host": evidence.hosts.get(rank),
        "exit_code": end.code if end is not None else None,
        "signal": end.signal if end is not None else None,
    }
