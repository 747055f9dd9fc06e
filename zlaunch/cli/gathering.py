"""A run that waits for others before it can be planned is known all the same, and so is its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType

from zlaunch.cli.new_run import unplanned_record
from zlaunch.cli.on_exit import on_exit
from zlaunch.cli.request import Request
from zlaunch.errors import InputError, TimeLimitError, ZlaunchError
from zlaunch.launcher import report
from zlaunch.run.outcome import WRONG_INPUT, Outcome
from zlaunch.run.record import RUNNING, RunRecord
from zlaunch.system.rundir import RunDir

_STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # INT raises KeyboardInterrupt already


class Gathering:
    """Called with what the run waits for, each time that this is something else."""

    def __init__(self, request: Request, run: RunDir) -> None:
        self._request = request
        self._run = run
        self._record: RunRecord | None = None

    def __call__(self, what: str) -> None:
        """Note that the run waits for this; the first time, make its directory.

        Raises InputError where that cannot be written.
        """
        if self._record is None:
            self._record = self._begin()
        self._record = replace(self._record, gathering=what)
        self._run.write_record(self._record)

    def _begin(self) -> RunRecord:
        request, run = self._request, self._run
        for signum in _STOPS:
            if signal.getsignal(signum) is signal.SIG_DFL:
                signal.signal(signum, _stopped)
        if not run.created:
            run.create()
            if request.detach:
                run.adopt_console()
        return unplanned_record(request, run, os.environ)

    @contextmanager
    def to_its_end(self) -> Iterator[None]:
        """Write down an end that the launcher does not, and tell --on-exit.

        Such as one before there was a plan, or by a fault of ours.
        """
        try:
            yield
        except BaseException as error:
            with suppress(ZlaunchError):
                record = self._run.read_record()
                if self._run.created and record.state == RUNNING:
                    self._end(record, _outcome(error))
            raise

    def _end(self, record: RunRecord, outcome: Outcome) -> None:
        started = any(event["event"] == "Started" for event in self._run.read_events())
        outcome = replace(outcome, attempts=max(record.attempts_before, int(started)))
        if self._run.adopted is not None:
            from zlaunch.cli.requeue import goes_on
            from zlaunch.system.submission import forget_submission

            if goes_on(self._run, record, outcome):
                return
            forget_submission(self._run)
        ended = replace(record, gathering=None).ended_with(outcome, time.time())
        with suppress(InputError):  # the disk is full; the reason is told anyway
            self._run.write_record(ended)
        on_exit(self._request, self._run, ended, None, self._summary(ended, outcome))
        if self._run.adopted is None and outcome.unfit and record.gathering is not None:
            # wrong input leaves nothing behind
            self._run.discard()

    def _summary(self, ended: RunRecord, outcome: Outcome) -> str:
        if not outcome.attempts:
            return report.nothing_started(ended.id, outcome)
        seconds = (ended.ended or ended.started) - ended.started
        return report.summary(ended.id, outcome, seconds, ended.world_size, str(self._run.logs))


def _stopped(signum: int, _frame: FrameType | None) -> None:
    from zlaunch.cli.join_place import say

    say(f"stopped by {signal.Signals(signum).name}")
    raise SystemExit(128 + signum)


def _outcome(error: BaseException) -> Outcome:
    """How a run ended that this has ended."""
    if isinstance(error, KeyboardInterrupt):
        return Outcome({}, stopped_by=signal.SIGINT)
    if isinstance(error, SystemExit) and isinstance(error.code, int) and error.code > 128:
        return Outcome({}, stopped_by=error.code - 128)
    if isinstance(error, TimeLimitError):
        return Outcome({}, limit=error.message)
    if isinstance(error, ZlaunchError):
        return Outcome({}, trouble=error.message, unfit=error.exit_code == WRONG_INPUT)
    return Outcome({}, trouble=str(error) or type(error).__name__)
