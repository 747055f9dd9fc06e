"""Snapshots of a run: those that its launcher sends, and the last one by its files."""

from __future__ import annotations

import os
import select
import socket
import time
from typing import Any

from zlaunch.errors import ZlaunchError
from zlaunch.insight.board import Board
from zlaunch.run.control import ControlError, parse_answer, request
from zlaunch.run.metrics import decode
from zlaunch.run.record import FAILED, RunRecord
from zlaunch.system.control_socket import NoAnswerError, converse
from zlaunch.system.loop import read_chunk
from zlaunch.system.rundir import RunDir

PATIENCE = 15.0
"""Seconds for a launcher to answer."""

_READ_BACK = 8 << 20  # bytes of metrics.jsonl
_CHUNK = 256 << 10
_COPIED = ("gathering", "exit_code", "started", "ended")


def head(record: RunRecord, now: float) -> dict[str, Any]:
    """What a record says of the whole run."""
    told = {name: getattr(record, name) for name in _COPIED}
    until = record.ended if record.is_over else now
    told["seconds"] = None if until is None else round(until - record.started, 1)
    fields = {"run": record.id, "name": record.name, "state": record.shown_state, **told}
    return {name: value for name, value in fields.items() if value is not None}


def last_snapshot(run: RunDir) -> dict[str, Any]:
    """How a run stands, or stood last, by its files.

    Raises ZlaunchError where they cannot be read.
    """
    record = run.read_record()
    board = Board(record.world_size, record.plan.get("workers"))
    over = record.is_over
    for event in run.read_events():
        board.event(event)
    for line in _last_metrics(run):
        metric = decode(line)
        if metric is not None:
            board.metric(metric)
    for rank in _out_of_memory(run, record):
        board.ran_out_of_memory(rank)
    now = time.time()
    at = (record.ended or now) if over else now
    told = {**head(record, now), "at": round(at, 3), **board.snapshot(at, over=over)}
    if record.outcome:
        told["attempt"] = max(0, int(record.outcome.get("attempts") or 1) - 1)
    return told


def _last_metrics(run: RunDir) -> list[bytes]:
    """The last lines: those of a run of weeks are too many for somebody who waits."""
    try:
        with run.metrics.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _READ_BACK))
            return file.read().split(b"\n")[1 if size > _READ_BACK else 0 :]
    except OSError:
        return []


def _out_of_memory(run: RunDir, record: RunRecord) -> set[int]:
    """The ranks of a run that failed for want of memory, by what they printed."""
    if record.state != FAILED:
        return set()
    from zlaunch.cli.past_run import diagnosis_of, evidence_of

    causes = diagnosis_of(run, record, evidence_of(run, record)).causes
    return {rank for cause in causes if "out-of-memory" in cause.code for rank in cause.ranks}


def live_snapshot(run: RunDir) -> dict[str, Any]:
    """The second that the launcher sends: what ranks use has been asked for by then.

    Raises NoAnswerError where there is none, ZlaunchError where it does not answer.
    """
    record = run.read_record()
    with converse(run, request("watch"), PATIENCE) as connection:
        lines = Lines(connection)
        for count in (1, 2):
            snapshots = lines.next(PATIENCE)
            if not snapshots:
                raise NoAnswerError(f"the launcher of run {run.id} ends")
            if count == 2 or len(snapshots) > 1:
                break
    return {**head(record, time.time()), **snapshots[-1]}


class Lines:
    """Snapshots out of what comes from the launcher."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""

    def read(self) -> list[dict[str, Any]] | None:
        """What has come; None where the launcher has hung up.

        Raises ZlaunchError where it refuses.
        """
        data = read_chunk(self._connection.fileno(), _CHUNK)
        if data == b"":
            return None
        *lines, self._data = (self._data + (data or b"")).split(b"\n")
        try:
            return [parse_answer(line) for line in lines]
        except ControlError as error:
            raise ZlaunchError(str(error)) from error

    def next(self, within: float) -> list[dict[str, Any]]:
        """Wait for at least one; none where the launcher has hung up.

        Raises ZlaunchError after `within` seconds.
        """
        deadline = time.monotonic() + within
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._connection], [], [], left)[0]:
                snapshots = self.read()
                if snapshots is None or snapshots:
                    return snapshots or []
        raise ZlaunchError(
            f"the launcher did not answer within {within:g} s",
            hint="is it stopped (SIGSTOP, Ctrl-Z)?",
        )
