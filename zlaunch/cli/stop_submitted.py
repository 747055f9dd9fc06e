"""Ends runs that were submitted to Slurm: those that wait there, and those that run anywhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import typer

from zlaunch.cli.one_run import ask_launcher, ending, is_elsewhere, say
from zlaunch.errors import BackendError, ZlaunchError
from zlaunch.launcher.report import duration
from zlaunch.run.control import request
from zlaunch.run.record import QUEUED, RunRecord
from zlaunch.spec.ranks import describe_ranks
from zlaunch.system.control_socket import NoAnswerError
from zlaunch.system.rundir import RunDir
from zlaunch.system.slurm_commands import cancel_waiting, signal_batch
from zlaunch.system.submission import ask_to_stop

_LOOK_EVERY = 0.25  # seconds
_AGAIN = 5.0  # seconds until a job that still waits is cancelled once more
_SECOND = 1.0  # seconds from TERM to the one that ends the grace; a second wish, not an echo


def stop_submitted(runs: Sequence[RunDir], *, now: bool) -> None:
    """End these runs and wait for it, all at the same time.

    Raises BackendError where Slurm refuses.
    """
    for run in runs:
        ask_to_stop(run)
    records = {run: run.read_record() for run in runs}
    waiting = [record.job for record in records.values() if record.state == QUEUED]
    if waiting:
        cancel_waiting(*waiting)
    left = {run: _Wish(run, now=now) for run in runs}
    while left:
        for run, wish in list(left.items()):
            record = run.read_record()
            if record.is_over:
                lasted = record.ended - record.started if record.ended and record.world_size else 0
                after = f" after {duration(lasted)}" if lasted else ""
                typer.echo(f"run {record.id} {ending(record)}{after}")
                del left[run]
            else:
                wish.pursue(record)
        if left:
            time.sleep(_LOOK_EVERY)


class _Wish:
    """That one run ends; told to whoever has it just now, and to each once."""

    def __init__(self, run: RunDir, *, now: bool) -> None:
        self._run, self._now = run, now
        self._told: float | None = None
        self._again = False
        self._cancelled = time.monotonic()

    def pursue(self, record: RunRecord) -> None:
        """Do what is to be done about it."""
        if record.state == QUEUED:
            # One that has just begun finds what was asked for by itself.
            if time.monotonic() - self._cancelled > _AGAIN:
                self._cancelled = time.monotonic()
                with suppress(BackendError):
                    cancel_waiting(record.job)
        elif self._told is None:
            self._tell(record)
        elif self._now and not self._again and time.monotonic() - self._told > _SECOND:
            self._again = True
            with suppress(BackendError):  # it is over
                signal_batch(record.job, "TERM")

    def _tell(self, record: RunRecord) -> None:
        if record.gathering is not None or is_elsewhere(record):
            try:
                signal_batch(record.job, "TERM")
            except BackendError:
                if not self._run.read_record().is_over:
                    raise
            else:
                say(f"run {record.id}: TERM to its launcher on {record.host}, by Slurm")
            self._told = time.monotonic()
            return
        try:
            told = ask_launcher(self._run, request("stop", now=self._now))
        except NoAnswerError:  # it does not listen yet, or no longer
            return
        except ZlaunchError as error:
            say(str(error))
            return
        finally:
            self._again = True
        self._told = time.monotonic()
        if told["ranks"]:
            within = f" within {told['grace']:g} s" if told["grace"] else " at once"
            say(f"stopping {describe_ranks(told['ranks'])} of run {record.id}{within}")
