"""How Slurm ended the job of a run, found out at the end of the run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from zlaunch.backends.base import Backend
from zlaunch.backends.slurm import SlurmBackend
from zlaunch.backends.slurm_words import failed_node
from zlaunch.cli.job_end import SECONDS, ask_slurm
from zlaunch.errors import InputError
from zlaunch.insight.job_causes import cause
from zlaunch.insight.job_ends import ENDING, Window
from zlaunch.run.job_end import CANCELLED, ENDED, NODE_FAILED, OUT_OF_MEMORY, JobEnd
from zlaunch.run.outcome import Outcome
from zlaunch.run.record import RunRecord
from zlaunch.system.rundir import RunDir
from zlaunch.system.slurm_records import SlurmRecords

_PAUSES = (0.2, 0.4)  # seconds until Slurm knows of the end of a step that is over
_KILL, _TERM = 9, 15


def may_be_slurms(outcome: Outcome, backend: Backend) -> bool:
    """Whether it may have been Slurm that ended the run: else it is not asked."""
    if isinstance(backend, SlurmBackend) and backend.ends:
        return True
    first = outcome.first_failure
    if first is not None:
        return first.exit.signal in (_KILL, _TERM)
    return outcome.trouble is not None or outcome.stopped_by == _TERM


def seen_with_slurm(
    outcome: Outcome, backend: Backend, run: RunDir, record: RunRecord, ended: float
) -> Outcome:
    """Return the outcome together with how Slurm ended the job, or a step of it, if it did.

    Without that it is written down before, since Slurm may kill us at any moment.
    """
    with suppress(InputError):
        run.write_record(record.ended_with(outcome, ended))
    by_steps = isinstance(backend, SlurmBackend)
    heard = backend.ends if isinstance(backend, SlurmBackend) else {}
    # Of its batch script Slurm knows nothing as long as that is us.
    wait = by_steps and (bool(heard) or outcome.stopped_by is None)
    end = _found(record, heard, wait=wait)
    return outcome if end is None else outcome.within(end, cause(end).title)


def _found(record: RunRecord, heard: Mapping[str, str], *, wait: bool) -> JobEnd | None:
    slurm, window = SlurmRecords(SECONDS), Window(record.slurm_since, time.time())
    end = None
    for pause in (0.0, *_PAUSES):
        time.sleep(pause)
        end = ask_slurm(slurm, record.slurm_job, window)
        if not wait or (end is not None and (end.code or end.state == ENDING)):
            break
    return _by_words(record.slurm_job, end, heard)


def _by_words(job: str, end: JobEnd | None, heard: Mapping[str, str]) -> JobEnd | None:
    """Add what srun said: that alone is there where Slurm does not answer.

    Of memory without cgroups it tells more than the record, in which root has cancelled the step.
    Without accounting a job that is being ended has no other state than that.
    """
    code = end.code if end is not None and end.code != ENDED else ""
    if OUT_OF_MEMORY in heard and code in {"", CANCELLED}:
        code = OUT_OF_MEMORY
    ending = end is not None and end.state == ENDING
    code = code or next(iter(heard), CANCELLED if ending else "")
    if not code:
        return None
    end = replace(end or JobEnd(code, job), code=code, words=heard.get(code, ""))
    node = failed_node(end.words)
    return replace(end, nodes=end.nodes or (node,)) if code == NODE_FAILED and node else end
