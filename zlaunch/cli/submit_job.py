"""Checks a run that is to be submitted, makes its directory, and has sbatch take it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from zlaunch import __version__
from zlaunch.cli.forward_signals import signal_number
from zlaunch.cli.one_run import say
from zlaunch.cli.prepare import working_directory
from zlaunch.cli.request import Request, check
from zlaunch.cli.submit_rehearsal import rehearse
from zlaunch.cli.submit_request import to_json
from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.launcher.forwarding import signal_name
from zlaunch.run.record import QUEUED, RunRecord
from zlaunch.spec.batch_options import check_option
from zlaunch.spec.batch_script import (
    JobRequest,
    batch_script,
    read_array,
    read_gpus,
    read_limit,
    read_warning,
)
from zlaunch.spec.environment import OWNED
from zlaunch.spec.redact import redact_arguments
from zlaunch.system.run_store import RunStore, home_directory, new_run_id
from zlaunch.system.rundir import RunDir
from zlaunch.system.submission import SCRIPT, write_first_record, write_submission

_WARNING = "120s"  # with --requeue, where nobody says anything else
# Of the variables of an allocation that `submit` is typed in, its job needs these alone.
_SLURMS_OWN = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_CONF_SERVER"})


@frozen
class Wish:
    """What only `submit` has: options for Slurm, as typed."""

    nodes: int | None = None
    gpus_per_node: str | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    array: str | None = None
    requeue: bool = False
    signal_before: str | None = None
    sbatch: tuple[str, ...] = ()


def show(request: Request, wish: Wish) -> None:
    """Print the batch script; raises InputError as `submit_run` does."""
    job = _checked(request, wish)
    run = RunStore(home_directory(os.environ)).run(new_run_id())
    typer.echo(batch_script(job, str(run.path), sys.executable), nl=False)


def submit_run(request: Request, wish: Wish) -> None:
    """Submit it, and print the id of each run.

    Raises InputError, with nothing left behind, for what is wrong with the input, and with sbatch's
    own words where that refuses it.
    """
    job = _checked(request, wish)
    if shutil.which("sbatch") is None:
        raise InputError(
            "sbatch is not in PATH: this is no machine that submits to Slurm",
            hint="the cluster's login node is; `zlaunch multinode` goes by SSH",
        )
    from zlaunch.system.slurm_commands import submit

    base = RunStore(home_directory(os.environ)).run(new_run_id())
    script = batch_script(job, str(base.path), sys.executable)
    runs = _runs(base, job)
    with _all_or_nothing(runs.values()):
        for task, run in runs.items():
            write_submission(run, _submission(request, job, base, run, task))
        first = next(iter(runs.values()))
        first.write_text(first.path / SCRIPT, script)
        job_id, words = submit(first.path / SCRIPT, _environment(os.environ, job))
    for task, run in runs.items():
        record = _record(request, job, base, run, task)
        name = job_id if task is None else f"{job_id}_{task}"
        submitted = {**(record.submitted or {}), "job": name}
        write_first_record(run, replace(record, submitted=submitted))
        typer.echo(run.id)
    if words:
        say(f"sbatch: {words}")
    if not request.quiet:
        _tell(job_id, base, runs.values(), array=job.array is not None)


def _tell(job: str, base: RunDir, runs: Sequence[RunDir] | Any, *, array: bool) -> None:
    if array:
        say(f"Slurm's job {job}, {len(runs)} tasks; `zlaunch stop {base.id}` ends them all")
    else:
        say(
            f"Slurm's job {job}; `zlaunch attach {base.id}` shows the run once it begins, "
            f"`zlaunch stop {base.id}` ends it"
        )


@contextmanager
def _all_or_nothing(runs: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for run in runs:
            run.discard()
        raise


def _runs(base: RunDir, job: JobRequest) -> dict[int | None, RunDir]:
    """By the number of the task; None for the one run of no array."""
    if job.array is None:
        return {None: base}
    return {
        task: RunDir(base.path.with_name(f"{base.id}_{task}")) for task in read_array(job.array)
    }


def _checked(request: Request, wish: Wish) -> JobRequest:
    """Find what is wrong with the input while nothing has been submitted.

    Raises InputError.
    """
    check(replace(request, many=None))
    _check_slots(request, wish)
    for text, option in (
        (wish.time, "--time"), (wish.partition, "--partition"), (wish.account, "--account"),
        (wish.qos, "--qos"), (wish.constraint, "--constraint"), (wish.array, "--array"),
    ):  # fmt: skip
        if text is not None and not text.strip():
            raise InputError(f"{option} is empty", hint="leave it out")
    if wish.array is not None:
        read_array(wish.array)
    nodes = wish.nodes or (None if wish.sbatch else 1)
    rehearse(request, nodes, _slots(request, wish))
    return JobRequest(
        name=request.name or Path(request.script).name,
        nodes=wish.nodes,
        tasks_per_node=request.cpu,
        gpus_per_node=wish.gpus_per_node,
        time=wish.time,
        partition=wish.partition,
        account=wish.account,
        qos=wish.qos,
        constraint=wish.constraint,
        array=wish.array,
        requeue=wish.requeue,
        signal=_warning(request, wish),
        options=tuple(check_option(text, requeue=wish.requeue) for text in wish.sbatch),
    )


def _check_slots(request: Request, wish: Wish) -> None:
    if wish.nodes is not None and wish.nodes < 1:
        raise InputError(f"--nodes {wish.nodes}: at least one node is needed")
    on_cpu = request.cpu is not None or request.device == "cpu"
    if wish.gpus_per_node is not None and on_cpu:
        how = "--cpu" if request.cpu is not None else "--device cpu"
        raise InputError(f"{how} and --gpus-per-node contradict each other", hint="give one")


def _slots(request: Request, wish: Wish) -> int | None:
    """How many ranks a node has; None where Slurm will tell."""
    return request.cpu if wish.gpus_per_node is None else read_gpus(wish.gpus_per_node)


def _warning(request: Request, wish: Wish) -> tuple[str, int] | None:
    """The signal that Slurm sends ahead of the end, and how many seconds."""
    text = wish.signal_before or (_WARNING if wish.requeue else None)
    if text is None:
        return None
    name, seconds = read_warning(text)
    limit = read_limit(wish.time or "")
    if limit is not None and limit <= seconds:
        raise InputError(
            f"--signal-before {text}: --time {wish.time} is no longer than that",
            hint="a shorter one, or more time",
        )
    forwarded = request.forwarded
    if name is None and forwarded:
        return signal_name(forwarded[0]).removeprefix("SIG"), seconds
    signum = signal_number(name or "USR1")
    if signum is None or signum not in forwarded:
        raise InputError(
            f"--signal-before {text}: {name or 'USR1'} does not go to the ranks",
            hint="--forward-signals names those that do; USR1,USR2 by default",
        )
    return signal_name(signum).removeprefix("SIG"), seconds


def _submission(
    request: Request, job: JobRequest, base: RunDir, run: RunDir, task: int | None
) -> dict[str, Any]:
    record = _record(request, job, base, run, task)
    return {
        "version": __version__,
        "cwd": working_directory(),
        "record": record.to_json(),
        "request": to_json(replace(request, name=record.name)),
    }


def _record(
    request: Request, job: JobRequest, base: RunDir, run: RunDir, task: int | None
) -> RunRecord:
    """The record of a run that waits in the queue, whose job is not known yet."""
    now = time.time()
    name = request.name
    signals = [signal_name(signum) for signum in request.forwarded]
    submitted: dict[str, Any] = {"at": now, "requeue": job.requeue, "signals": signals}
    if job.signal is not None:
        submitted["warning"] = [signal_number(job.signal[0]), float(job.signal[1])]
    if task is not None:
        submitted |= {"array": base.id, "array_name": name}
        name = None if name is None else f"{name}_{task}"
    return RunRecord(
        id=run.id,
        name=name,
        state=QUEUED,
        started=now,
        command=redact_arguments((request.script, *request.args), os.environ),
        cwd=working_directory(),
        world_size=0,
        plan={},
        launcher_pid=0,
        version=__version__,
        submitted=submitted,
    )


def _environment(env: Mapping[str, str], job: JobRequest) -> dict[str, str]:
    """What sbatch takes along: ours, without what is of another job or overrules the script."""
    dropped = {*OWNED, *job.variables}
    inside = "SLURM_JOB_ID" in env
    return {
        name: value
        for name, value in env.items()
        if name not in dropped
        and not (inside and name.startswith("SLURM_") and name not in _SLURMS_OWN)
    }
