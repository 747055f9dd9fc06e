"""The batch script of a run that is submitted to Slurm, and what its options may be.

Pure. It says what Slurm is asked for, and becomes the launcher; nothing of the training stands in
it, since Slurm keeps batch scripts and shows them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.spec.batch_options import quoted

_MOST_TASKS = 10_000
_RANGE = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?")
_DURATION = re.compile(r"([0-9]{1,6})([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_LONGEST_WARNING = 65535  # seconds, Slurm's own limit
_GPUS = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?([0-9]{1,4})")


@frozen
class JobRequest:
    """What Slurm is asked for; texts as sbatch takes them.

    `signal` is a name and how many seconds before the end of its time the job gets it.
    `options` are further ones of sbatch, as typed.
    """

    name: str
    nodes: int | None = None
    tasks_per_node: int | None = None
    gpus_per_node: str | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    array: str | None = None
    requeue: bool = False
    signal: tuple[str, int] | None = None
    options: tuple[str, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        """The variables by which a user's environment would overrule the script."""
        given = {
            "GPUS_PER_NODE": self.gpus_per_node,
            "TIMELIMIT": self.time,
            "PARTITION": self.partition,
            "ACCOUNT": self.account,
            "QOS": self.qos,
            "CONSTRAINT": self.constraint,
            "SIGNAL": self.signal,
            "REQUEUE": self.requeue,
            "NO_REQUEUE": self.requeue,
        }
        names = {name for name, value in given.items() if value}
        ours = {"JOB_NAME", "OUTPUT", "ERROR", "INPUT", "OPEN_MODE", "ARRAY_INX", "WAIT"}
        return frozenset(f"SBATCH_{name}" for name in names | ours)


def batch_script(job: JobRequest, folder: str, python: str) -> str:
    """Return the script; `folder` is that of the run, to which an array's task adds its number.

    `python` is the interpreter that has zlaunch. Raises InputError for a path that Slurm would
    read as another one.
    """
    lines = ["#!/bin/sh", "# Made by `zlaunch submit`; of the training nothing stands here."]
    lines += [f"#SBATCH {option}" for option in _options(job, folder)]
    where = shlex.quote(folder)
    if job.array is not None:
        where += '_"$SLURM_ARRAY_TASK_ID"'
    # Not from the directory that the user is in: Python would look for its modules there.
    start = f"exec {shlex.quote(python)} -m zlaunch __submitted {where}"
    return "\n".join([*lines, f"cd {where} && {start}"]) + "\n"


def _options(job: JobRequest, folder: str) -> Iterator[str]:
    yield f"--job-name={quoted(job.name)}"
    yield f"--output={_pattern(folder, array=job.array is not None)}"
    yield "--open-mode=append"
    named = {
        "nodes": job.nodes,
        "ntasks-per-node": job.tasks_per_node,
        "gpus-per-node": job.gpus_per_node,
        "time": job.time,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "constraint": job.constraint,
        "array": job.array,
    }
    for name, value in named.items():
        if value is not None:
            yield f"--{name}={quoted(str(value))}"
    if job.requeue:
        yield "--requeue"
    if job.signal is not None:
        yield f"--signal=B:{job.signal[0]}@{job.signal[1]}"
    yield from job.options


def _pattern(folder: str, *, array: bool) -> str:
    """The file of what the job prints, as a pattern of Slurm's."""
    if "\\" in folder:
        raise InputError(
            f"{folder}: Slurm takes no path with a backslash",
            hint="set ZLAUNCH_HOME to another directory",
        )
    return quoted(folder.replace("%", "%%") + ("_%a" if array else "") + "/console.log")


def read_array(text: str) -> tuple[int, ...]:
    """Return the tasks of --array: `0-3%2`, `1,5,7-9`, `0-15:4`.

    Raises InputError.
    """
    listed, percent, most = text.partition("%")
    hint = "such as 0-3, 1,5,9, 0-15:4, or 0-99%10 for ten at a time"
    if percent and not (most.isascii() and most.isdigit() and int(most) > 0):
        raise InputError(f"--array {text}: behind % stands how many run at a time", hint=hint)
    tasks: dict[int, None] = {}
    for part in listed.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise InputError(f"--array {text}: {part!r} is no number and no range", hint=hint)
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or not step:
            raise InputError(f"--array {text}: there is nothing in {part}", hint=hint)
        if (last - first) // step >= _MOST_TASKS or len(tasks) >= _MOST_TASKS:
            raise InputError(f"--array {text}: {_MOST_TASKS} tasks at most")
        tasks.update(dict.fromkeys(range(first, last + 1, step)))
    return tuple(tasks)


def read_warning(text: str) -> tuple[str | None, int]:
    """Return signal (None: not said) and seconds of --signal-before: `120s`, `USR2@5m`.

    Raises InputError.
    """
    name, at, time = text.rpartition("@")
    found = _DURATION.fullmatch(time)
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_WARNING or (at and not name):
        raise InputError(
            f"--signal-before {text or repr(text)} is no time before the end",
            hint="120s, 5m, or USR2@120s for another signal; 18 hours at most",
        )
    return name or None, seconds


def read_limit(text: str) -> int | None:
    """Return the seconds of --time; None for what is left to sbatch, such as no limit.

    Slurm's forms: minutes, minutes:seconds, hours:minutes:seconds, and days- in front of hours.
    """
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isascii() and part.isdigit() for part in (*parts, *([days] if dash else ()))):
        return None
    numbers = [int(part) for part in parts]
    if dash:
        numbers = [*numbers, 0, 0][:3]
    elif len(numbers) == 1:
        numbers = [0, *numbers, 0]
    elif len(numbers) == 2:
        numbers = [0, *numbers]
    if len(numbers) != 3:
        return None
    hours, minutes, seconds = numbers
    return (int(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds


def read_gpus(text: str) -> int:
    """Return the number in `8` or `a100:4`.

    Raises InputError.
    """
    found = _GPUS.fullmatch(text)
    if found is None or not int(found[1]):
        raise InputError(
            f"--gpus-per-node {text or repr(text)} is no number of GPUs", hint="8, or a100:4"
        )
    return int(found[1])
