"""What srun and slurmstepd say on the way to an agent, and what it means.

Their words come beside the link, line by line; nothing of a rank's comes there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from zlaunch.run.job_end import (
    CANCELLED,
    NODE_FAILED,
    OUT_OF_MEMORY,
    PREEMPTED,
    REQUEUED,
    TIME_LIMIT,
)

_SAYS = re.compile(r"(?:srun|slurmstepd(?:-[\w.-]+)?): (?:error: |fatal: )?(?P<text>.*)")

# What ends a run from outside: told when it is heard, while ranks may still write a checkpoint.
_ENDS = (
    (r"\*\*\* .*DUE TO TIME LIMIT", "the job's time limit has come", TIME_LIMIT),
    (r"\*\*\* .*DUE TO PREEMPTION", "the job was preempted: another one takes its nodes",
     PREEMPTED),
    (r"\*\*\* .*DUE TO NODE FAILURE", "a node of the job has failed", NODE_FAILED),
    (r"\*\*\* .*DUE TO JOB REQUEUE", "the job was put back into the queue", REQUEUED),
    (r"\*\*\* STEP .*CANCELLED", "the job, or this step of it, was cancelled", CANCELLED),
    (r"\*\*\* JOB .*CANCELLED", "the job was cancelled", CANCELLED),
    (r"Node failure on (?P<node>\S+)", "node {node} has failed", NODE_FAILED),
    (r"Detected \d+ oom[_-]kill", "memory ran out, and the kernel killed a process", OUT_OF_MEMORY),
    (r"Some of (?:your|the step) (?:processes|tasks) .*(?:OOM|killed by)", "memory ran out",
     OUT_OF_MEMORY),
    (r"Exceeded (?:job|step) memory limit", "the job's memory limit was exceeded", OUT_OF_MEMORY),
)  # fmt: skip
_OVER = "the job is over; `unset SLURM_JOB_ID` to go on without one"
# Why there is no agent.
_REFUSES = (
    (r".*Requested nodes are busy", "other steps hold all of it"),
    (r".*[Ss]tep creation temporarily disabled", "Slurm creates no step there now"),
    (r".*Invalid job id specified", _OVER),
    (r".*(?:Job|step).* (?:already )?complet", "the job is ending"),
    (r".*Expired or invalid job", _OVER),
    (r".*[Cc]redential (?:expired|revoked)", "Slurm's credential for the step has expired"),
    (r".*(?:More processors requested|Requested node configuration)", "the job has no room there"),
    (r".*(?:Unable to contact slurm controller|Zero Bytes)", "Slurm's controller does not answer"),
    (r".*(?:Task launch|Application launch) .*failed", "its slurmd does not start it"),
    (r".*Communication connection failure", "its slurmd does not answer"),
    (r".*unrecognized option", "this srun is too old: 20.11 or newer is needed"),
    (r".*Unable to confirm allocation", "the job is not known to Slurm"),
)
# Said of each step, and of no consequence.
_NOISE = (
    r"cluster configuration lacks support",
    r"Job step aborted: Waiting",
    r"got SIGCONT",
    r"forcing job termination",
    r"Job \d+ step creation still disabled",
    r"couldn't chdir",
    r"task \d+: (?:Killed|Terminated|Exited)",
    r"launch/slurm: _step_signal",
    r"Terminating StepId",
    r"Step created for",
)


def told(words: str) -> Iterator[str]:
    """Yield what the words say of the end of the job, each meaning with Slurm's own line."""
    yield from (f"Slurm: {meaning} ({line})" for meaning, line in _read(words, _ENDS))


def ends(words: str) -> Iterator[tuple[str, str]]:
    """Yield how they say that Slurm ended the job or a step, as a code, and Slurm's own line."""
    codes = {meaning: code for _, meaning, code in _ENDS}
    for meaning, line in _read(words, _ENDS):
        yield codes.get(meaning, NODE_FAILED), line  # a meaning with a node's name is none of them


def failed_node(line: str) -> str:
    """Which node has failed, where this line of Slurm's says so; else ""."""
    found = re.search(r"Node failure on (\S+)", line)
    return found[1] if found else ""


def why_lost(words: str) -> str | None:
    """Say why there is no agent, or none any more; None where Slurm does not."""
    for meaning, line in _read(words, (*_REFUSES, *_ENDS)):
        return f"{meaning} ({line})"
    return None


def without_noise(words: str) -> str:
    """Leave out what Slurm says of every step."""
    noise = re.compile("|".join(_NOISE))
    kept = []
    for line in words.splitlines():
        said = _SAYS.match(line.strip())
        if said is None or not noise.match(said["text"]):
            kept.append(line)
    return "\n".join(kept).strip()


def _read(words: str, table: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for line in words.splitlines():
        said = _SAYS.match(line.strip())
        for row in table if said else ():
            match = re.match(row[0], said["text"]) if said else None
            if match is not None:
                yield row[1].format(**match.groupdict()), line.strip()
                break
