"""What Slurm's queue says of jobs: read from squeue, and told in words.

Pure. A job is called as squeue calls it: `12`, or `12_3` for a task of an array.
"""

from __future__ import annotations

from collections.abc import Mapping

from zlaunch.frozen import frozen

FORMAT = "%i|%F|%K|%T|%S|%e|%r"
"""What squeue is asked to print of each job, with -h and -r."""

# Slurm's words for where a job stands; all others mean that it is over.
WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
"""Of one that is to start, or to start again."""
_GOES_ON = frozenset(
    {
        *("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING"),
        *("RESIZING", "STAGE_OUT", "RESV_DEL_HOLD"),
    }
)
_CANCELLED = ("CANCELLED", "REVOKED")
_UNSAID = frozenset({"", "N/A", "Unknown", "(null)"})


@frozen
class Job:
    """A job in the queue, or one that has left it a short time ago.

    `reason` is Slurm's, "" where there is none. `start` and `end` are moments as Slurm writes them
    (`2026-12-01T04:35:08`), "" where it does not know; of a job that waits `start` is its guess.
    """

    id: str
    state: str
    reason: str = ""
    start: str = ""
    end: str = ""
    array: str = ""
    task: str = ""

    @property
    def waits(self) -> bool:
        """Whether it is to start yet, or once more."""
        return self.state in WAITS

    @property
    def over(self) -> bool:
        """Whether it neither waits nor runs."""
        return not self.waits and self.state not in _GOES_ON

    @property
    def cancelled(self) -> bool:
        """Whether somebody ended it."""
        return self.state.startswith(_CANCELLED)


def parse_queue(text: str) -> dict[str, Job]:
    """Read what squeue prints in FORMAT; lines that are none of that are left out."""
    jobs = {}
    for line in text.splitlines():
        fields = line.strip().split("|", 6)
        if len(fields) == 7 and fields[0] and fields[3]:
            name, array, task, state, start, end, reason = fields
            jobs[name] = Job(
                name, state, _said(reason, "None"), _said(start), _said(end), array, _said(task)
            )
    return jobs


def find_job(jobs: Mapping[str, Job], name: str) -> Job | None:
    """Return a job by its name; None where Slurm does not know it, or no longer.

    Of the tasks of an array that never ran, Slurm forgets each that is cancelled, and makes one
    of those that are cancelled together.
    """
    if name in jobs:
        return jobs[name]
    array, is_task, task = name.partition("_")
    if is_task and any(job.array == array for job in jobs.values()):
        return Job(name, "CANCELLED", array=array, task=task)
    return None


def describe_wait(job: Job) -> str:
    """Say why a job waits, and when it may start: `Slurm's job 12: Resources, starts about ...`."""
    words = f"Slurm's job {job.id}: {_REASONS.get(job.reason, job.reason) or job.state.lower()}"
    return f"{words}; to start about {job.start.replace('T', ' ')}" if job.start else words


# Those that few would understand; the others say it themselves.
_REASONS = {
    "Resources": "waits for nodes to be free (Resources)",
    "Priority": "others come first (Priority)",
    "BeginTime": "its time to begin has not come (BeginTime)",
    "Dependency": "waits for another job (Dependency)",
    "JobArrayTaskLimit": "so many tasks of its array run already (JobArrayTaskLimit)",
    "JobHeldUser": "is held: scontrol release (JobHeldUser)",
    "JobHeldAdmin": "is held by the administrator (JobHeldAdmin)",
    "PartitionConfig": "asks for more than its partition can give (PartitionConfig)",
    "PartitionTimeLimit": "asks for more time than its partition gives (PartitionTimeLimit)",
    "PartitionNodeLimit": "asks for more nodes than its partition has (PartitionNodeLimit)",
    "ReqNodeNotAvail": "a node that it needs is not available (ReqNodeNotAvail)",
}


def _said(text: str, *nothing: str) -> str:
    text = text.strip()
    return "" if text in _UNSAID or text in nothing else text
