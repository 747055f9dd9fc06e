"""Makes the record and the files of a run that is about to begin."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zlaunch import __version__
from zlaunch.cli.allocation import job_of
from zlaunch.cli.ds_config import DsConfig
from zlaunch.cli.prepare import Prepared, working_directory
from zlaunch.cli.request import Request
from zlaunch.dsconfig.render import to_json
from zlaunch.insight.loss_scale import LossScaleState
from zlaunch.launcher.output import Output
from zlaunch.run.record import RUNNING, RunRecord
from zlaunch.spec.plan import Plan
from zlaunch.spec.redact import redact_arguments, redact_shell
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop
from zlaunch.system.rundir import RunDir


def unplanned_record(request: Request, run: RunDir, env: Mapping[str, str]) -> RunRecord:
    """The record of a run that starts now, where nothing is known of its ranks yet."""
    queued = run.adopted
    return RunRecord(
        id=run.id,
        name=request.name,
        state=RUNNING,
        started=time.time() if queued is None else queued.started,
        command=redact_arguments((request.script, *request.args), env),
        cwd=working_directory(),
        world_size=0,
        plan={},
        slurm_job=job_of(request.many, env),
        slurm_since=time.time(),
        launcher_pid=os.getpid(),
        version=__version__,
        host=socket.gethostname(),
        submitted=None if queued is None else queued.submitted,
    )


def new_record(
    request: Request, prepared: Prepared, run: RunDir, env: Mapping[str, str]
) -> RunRecord:
    """The record of a run that starts now."""
    plan = prepared.plan
    recorded = {"on_exit": redact_shell(request.on_exit, env)} if request.on_exit else {}
    return replace(
        unplanned_record(request, run, env),
        cwd=plan.workers[0].cwd or "",
        world_size=plan.topology.world_size,
        plan={**recorded_plan(plan, prepared.ds), **recorded},
    )


def recorded_plan(plan: Plan, ds: DsConfig) -> dict[str, Any]:
    """The plan as it is recorded: the ds_config has a file, the command is there once."""
    data = plan.to_json()
    workers = [
        {name: value for name, value in worker.items() if name != "argv"}
        for worker in data["workers"]
    ]
    kept = {name: value for name, value in data.items() if name != "ds_config"}
    return {**kept, "workers": workers, "recipe": ds.name}


def make_files(
    request: Request,
    prepared: Prepared,
    run: RunDir,
    record: RunRecord,
    console: Console,
    loop: Loop,
) -> Output:
    """Make the run directory with all its files; a record is written once nothing can fail."""
    if not run.created:
        run.create()
        if request.detach:
            run.adopt_console()
    if prepared.ds.config is not None:
        run.write_text(run.ds_config, to_json(prepared.ds.config))
    loss_scale, ranks = _loss_scale(prepared.ds.config), range(record.world_size)
    # What the rank at the terminal writes is shown as it is: nothing of it can be folded.
    verbose = request.verbose or request.debug
    most = request.log_bytes
    if request.detach and most is not None:
        console.keep_newest(run, most)
    output = Output(
        run, console, ranks, loss_scale, verbose=verbose, log_max=most, loop=loop,
        attempt=record.attempts_before,
    )  # fmt: skip
    run.write_record(record)
    return output


def _loss_scale(config: Mapping[str, Any] | None) -> LossScaleState:
    """What the ds_config says of the loss scale, for the words about it."""
    fp16 = (config or {}).get("fp16")
    if not isinstance(fp16, Mapping):
        return LossScaleState()
    lowest, power = fp16.get("min_loss_scale", 1), fp16.get("initial_scale_power", 16)
    return LossScaleState(
        min_scale=float(lowest) if isinstance(lowest, (int, float)) else 1.0,
        initial_scale=2.0**power if isinstance(power, int) else None,
    )
