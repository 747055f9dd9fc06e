"""What Slurm has on record of a job and its steps, read from what sacct, scontrol and squeue print.

Pure. All of them are to be asked with SLURM_TIME_FORMAT=%s, so that times are seconds of the epoch
in no time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.spec.allocation import expand_nodelist

SACCT_FORMAT = "JobIDRaw,State,ExitCode,Start,End,NodeList,Reason,Timelimit,UID,JobName"
"""What sacct is asked to print of each job and step, with -D, -P and -n."""
SQUEUE_FORMAT = "%A|%T|%r|%U|%S|%e|%N|%j"
"""What squeue is asked to print of each job, with -h and -t all."""
SINFO_FORMAT = "%N|%T|%E"
"""What sinfo is asked to print of each node, with -h and -N."""
NOT_OVER = frozenset(
    {
        *("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING"),
        *("RESIZING", "STAGE_OUT", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
    }
)
"""States of a job that may run on, or once more."""

_SACCT_FIELDS = SACCT_FORMAT.count(",")
_SQUEUE_FIELDS = SQUEUE_FORMAT.count("|")
_UNSAID = frozenset({"", "None", "N/A", "Unknown", "(null)", "None assigned"})
_FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z]+)=(\S*)")
# Between these stands a name of the user's, which may look like any other field.
_NAMED = re.compile(r"JobName=.*? (?=UserId=\S+ GroupId=\S+ )")
_OWNER = re.compile(r"\(([0-9]+)\)")
_LIMIT = re.compile(r"(?:([0-9]+)-)?([0-9]+):([0-9]{2})(?::([0-9]{2}))?")


@frozen
class StepRecord:
    """A step: `id` as Slurm calls it (`12.1`, `12.batch`); `by` the number of who cancelled it."""

    id: str
    state: str
    by: str = ""
    start: float | None = None
    nodes: tuple[str, ...] = ()
    exit: str = ""
    name: str = ""


@frozen
class JobRecord:
    """One start of a job; one that was put back into the queue has several.

    `state` is Slurm's word. `owner` and `by` (who cancelled it) are numbers of users, "" where they
    are not known. Times are in seconds of the epoch, `limit` in seconds, `memory` as Slurm writes
    it. `exit` is `CODE:SIGNAL`, of the batch script. `preempted` is when it was asked to make room.
    """

    job: str
    state: str
    by: str = ""
    owner: str = ""
    start: float | None = None
    end: float | None = None
    nodes: tuple[str, ...] = ()
    reason: str = ""
    limit: float | None = None
    memory: str = ""
    exit: str = ""
    restarts: int = 0
    preempted: float | None = None
    steps: tuple[StepRecord, ...] = ()

    @property
    def over(self) -> bool:
        """Whether this start of the job has come to its end."""
        return self.state not in NOT_OVER


@frozen
class NodeRecord:
    """A node as sinfo shows it."""

    name: str
    state: str
    reason: str = ""

    @property
    def failed(self) -> bool:
        """Whether Slurm cannot use it."""
        return self.state.startswith(("down", "fail", "DOWN", "FAIL"))


def read_sacct(text: str) -> tuple[JobRecord, ...]:
    """Read what sacct prints in SACCT_FORMAT: each start of each job, with its steps."""
    jobs: list[JobRecord] = []
    steps: dict[int, list[StepRecord]] = {}
    for line in text.splitlines():
        fields = line.split("|", _SACCT_FIELDS)
        if len(fields) != _SACCT_FIELDS + 1:
            continue
        id_, said, exit_, start, end, nodes, reason, limit, owner, name = fields
        state, by = _state(said)
        if "." in id_:
            step = StepRecord(id_, state, by, _time(start), _nodes(nodes), exit_, name)
            steps.setdefault(len(jobs) - 1, []).append(step)
        else:
            jobs.append(
                JobRecord(id_, state, by, _said(owner), _time(start), _time(end), _nodes(nodes),
                          _said(reason), _seconds(limit), exit=exit_)
            )  # fmt: skip
    return tuple(_with_steps(job, steps.get(number, ())) for number, job in enumerate(jobs))


def read_job(text: str) -> JobRecord | None:
    """Read what `scontrol show job -o` prints; None where that is no job."""
    line = next((line for line in text.splitlines() if line.startswith("JobId=")), "")
    line = _NAMED.sub("", line, count=1)
    # So may a command or a comment: the fields that count stand before those.
    fields = dict(reversed(_FIELD.findall(line)))
    if not line or "JobState" not in fields:
        return None
    owner = _OWNER.search(fields.get("UserId", ""))
    restarts = fields.get("Restarts", "")
    nodes = re.search(r" NodeList=(\S*)", line)
    return JobRecord(
        fields["JobId"],
        fields["JobState"],
        owner=owner[1] if owner else "",
        start=_time(fields.get("StartTime", "")),
        end=_time(fields.get("EndTime", "")),
        nodes=_nodes(nodes[1] if nodes else ""),
        reason=_said(fields.get("Reason", "")),
        limit=_seconds(fields.get("TimeLimit", "")),
        memory=_memory(fields),
        exit=fields.get("ExitCode", ""),
        restarts=int(restarts) if restarts.isdigit() else 0,
        preempted=_time(fields.get("PreemptTime", "")),
    )


def read_squeue(text: str) -> tuple[JobRecord, ...]:
    """Read what squeue prints in SQUEUE_FORMAT."""
    jobs = []
    for line in text.splitlines():
        fields = line.split("|", _SQUEUE_FIELDS)
        if len(fields) == _SQUEUE_FIELDS + 1:
            job, state, reason, owner, start, end, nodes, _ = fields
            jobs.append(
                JobRecord(job.strip(), state, owner=owner, start=_time(start), end=_time(end),
                          nodes=_nodes(nodes), reason=_said(reason))
            )  # fmt: skip
    return tuple(jobs)


def read_sinfo(text: str) -> tuple[NodeRecord, ...]:
    """Read what sinfo prints in SINFO_FORMAT; a node of several partitions comes once."""
    nodes = {}
    for line in text.splitlines():
        fields = line.split("|", 2)
        if len(fields) == 3:
            name, state, reason = fields
            nodes[name] = NodeRecord(name, state.rstrip("*~#!%$@^-"), _said(reason, "none"))
    return tuple(nodes.values())


def start_of(records: Iterable[JobRecord], at: float, apart: float = 10.0) -> JobRecord | None:
    """Return the start of a job in which something began at a time, in seconds of the epoch.

    Clocks may be `apart`, in seconds. None where no start was then: numbers of jobs come again.
    """
    fitting = [
        record
        for record in records
        if record.start is not None
        and record.start <= at + apart
        and (record.end is None or not record.over or record.end >= at - apart)
    ]
    return max(fitting, key=lambda record: record.start or 0.0, default=None)


def _with_steps(job: JobRecord, steps: Iterable[StepRecord]) -> JobRecord:
    return replace(job, steps=tuple(steps))


def _state(said: str) -> tuple[str, str]:
    """`CANCELLED by 1000` is a state, and who brought it about."""
    state, _, by = said.partition(" by ")
    return state.strip(), by.strip()


def _said(text: str, *nothing: str) -> str:
    text = text.strip()
    return "" if text in _UNSAID or text in nothing else text


def _time(text: str) -> float | None:
    return float(text) if text.strip().isdigit() and int(text) else None


def _seconds(text: str) -> float | None:
    """`1-00:00:00`, `00:10:00` or `10:00`; None for a limit that is none."""
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        return None
    days, first, second, third = (int(part or 0) for part in found.groups())
    if found[4] is None:
        first, second, third = 0, first, second
    return float(days * 86400 + first * 3600 + second * 60 + third)


def _memory(fields: Mapping[str, str]) -> str:
    """`400M a node`; "" without a limit."""
    for name, each in (("MinMemoryNode", "a node"), ("MinMemoryCPU", "a CPU")):
        size = fields.get(name, "0")
        if size.strip("0"):
            return f"{size} {each}"
    return ""


def _nodes(text: str) -> tuple[str, ...]:
    if not _said(text):
        return ()
    try:
        return expand_nodelist(text.strip())
    except InputError:
        return ()
