"""What Slurm said of the end of a run's job, kept with the run: Slurm itself forgets it.

A file of its own beside run.json, which the launcher alone writes, and never for a run of which
it wrote the end.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from zlaunch.errors import InputError
from zlaunch.run.job_end import JobEnd
from zlaunch.system.rundir import RunDir


def kept_job_end(run: RunDir) -> JobEnd | None:
    """Return what was kept; None where nothing is that can be read."""
    try:
        return JobEnd.from_json(json.loads(_path(run).read_text("utf-8")))
    except (OSError, ValueError):
        return None


def keep_job_end(run: RunDir, end: JobEnd) -> None:
    """Keep it; where the disk is full or the run somebody else's, it is asked for again."""
    with suppress(InputError, OSError):
        run.write_text(_path(run), json.dumps(end.to_json()) + "\n")


def _path(run: RunDir) -> Path:
    return run.path / "job-end.json"
