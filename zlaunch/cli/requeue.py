"""What a launcher in a job of Slurm's does so that its run goes on in the job's next start."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zlaunch.errors import BackendError, InputError
from zlaunch.run.outcome import Outcome
from zlaunch.run.record import QUEUED, RunRecord
from zlaunch.run.state import Rules
from zlaunch.system.loop import Loop, ignore_stop_signals
from zlaunch.system.rundir import RunDir
from zlaunch.system.submission import forget_submission, stop_is_asked

if TYPE_CHECKING:  # who was not submitted does not pay for it
    from zlaunch.cli.request import Request
    from zlaunch.launcher.launcher import Launcher
    from zlaunch.launcher.requeue import Requeue, Terms
    from zlaunch.launcher.time_left import TimeLeft


def make_requeue(
    run: RunDir,
    rules: Rules,
    loop: Loop,
    launcher: Launcher,
    say: Callable[[str], None],
    time_left: TimeLeft | None,
) -> Requeue:
    """Have the launcher of a submitted run hear Slurm's warning."""
    from zlaunch.launcher.requeue import Requeue

    assert run.adopted is not None
    requeue = Requeue(
        terms_of(run.adopted),
        rules,
        loop,
        launcher.stopping,
        lambda: launcher.state,
        say,
        lambda: time_left.end if time_left is not None else None,
        partial(stop_is_asked, run),
    )
    launcher.forwarding.on_heard = requeue.heard
    return requeue


def terms_of(record: RunRecord) -> Terms:
    """What was asked for at submission."""
    from zlaunch.launcher.requeue import Terms

    told = record.submitted or {}
    signum, ahead = told.get("warning") or (None, 0.0)
    return Terms(record.job, told.get("restarts") or 0, bool(told.get("requeue")), signum, ahead)


def goes_on(run: RunDir, record: RunRecord, outcome: Outcome) -> bool:
    """Whether Slurm itself starts the job again, after an end before there were ranks."""
    from zlaunch.launcher.requeue import is_put_back

    if outcome.stopped_by is None or stop_is_asked(run) or not is_put_back(terms_of(record)):
        return False
    queued_again(run, record)
    return True


def queued_again(run: RunDir, record: RunRecord) -> RunRecord:
    """Write down that the run waits for the next start of its job, and return that."""
    record = replace(record, state=QUEUED, gathering=None)
    with suppress(InputError):  # the disk is full; whoever looks asks Slurm
        run.write_record(record)
    return record


def put_back(
    request: Request, run: RunDir, record: RunRecord, outcome: Outcome, *, by_slurm: bool
) -> int:
    """Put the job back into the queue, where Slurm has not; return the exit code.

    Where that is refused, the run is over.
    """
    from zlaunch.cli.on_exit import on_exit
    from zlaunch.cli.one_run import ending, say
    from zlaunch.system.slurm_commands import requeue

    ignore_stop_signals()
    if by_slurm:
        return outcome.exit_code
    try:
        requeue(record.job)
    except BackendError as error:
        trouble = f"the job could not be put back into the queue: {error.message}"
        say(trouble)
        outcome = replace(outcome, trouble=trouble)
        ended = record.ended_with(outcome, time.time())
        run.write_record(ended)
        summary = f"run {run.id} {ending(ended)}"
        say(summary)
        on_exit(request, run, ended, None, summary)
        forget_submission(run)
    return outcome.exit_code
