"""Carries a request out: shows the plan, or makes the run directory and starts the launcher."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from zlaunch import __version__
from zlaunch.cli.ds_config import DsConfig
from zlaunch.cli.find_place import find_place
from zlaunch.cli.place import Place
from zlaunch.cli.prepare import Prepared, prepare
from zlaunch.cli.request import Request, check
from zlaunch.dsconfig.render import to_json
from zlaunch.errors import BatchError, InputError
from zlaunch.insight.loss_scale import LossScaleState
from zlaunch.launcher import report
from zlaunch.launcher.launcher import Launcher
from zlaunch.launcher.output import Output
from zlaunch.run.outcome import Outcome
from zlaunch.run.record import RUNNING, RunRecord
from zlaunch.spec.redact import redact_arguments
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop
from zlaunch.system.rundir import RunDir, RunStore, home_directory, new_run_id


def dry_run(request: Request, *, as_json: bool) -> None:
    """Print what would be started."""
    check(request)
    env = dict(os.environ)
    run = RunStore(home_directory(env)).run(new_run_id())
    with find_place(request, env, gather=False) as place:
        prepared = prepare(request, env, run, place)
    if as_json:
        print(json.dumps(prepared.plan.to_json(), indent=2))  # noqa: T201
        return
    from zlaunch.cli.plan_table import print_plan

    print_plan(prepared)


def start(request: Request) -> int:
    """Run to the end and return the exit code."""
    check(request)
    env = dict(os.environ)
    store = RunStore(home_directory(env))
    run = store.run(new_run_id())
    if request.join is not None:
        _rehearse(request, env, run)
    with find_place(request, env) as place:
        prepared = prepare(request, env, run, place)
        return _carry_out(request, prepared, store, run, env)


def _rehearse(request: Request, env: Mapping[str, str], run: RunDir) -> None:
    """Find what is wrong with the input before anybody is waited for.

    Save what depends on the number of ranks, which is not known yet.
    """
    anyhow = replace(request, console_ranks="all")
    with suppress(BatchError), find_place(anyhow, env, gather=False) as place:
        prepare(anyhow, env, run, place)


def _carry_out(
    request: Request, prepared: Prepared, store: RunStore, run: RunDir, env: Mapping[str, str]
) -> int:
    record = _record(request, prepared, run, env)
    loop = Loop()
    console = make_console(loop, prepared, env, quiet=request.quiet)
    output = _make_run(request, prepared, run, record, console)
    place = prepared.place
    told: list[str] = []

    def tell(trouble: str) -> None:
        console.say(trouble, "error")
        told.append(trouble)

    launcher = Launcher(
        prepared.plan,
        place.backend,
        loop,
        console,
        output,
        request.grace,
        place.patience,
        prepared.asked,
        request.allow,
        partial(store.set_latest, run),  # not a run in which nothing was started
        tell,
    )
    _introduce(console, prepared, run, verbose=request.verbose)
    try:
        outcome = launcher.run()
        ended = time.time()
        _conclude(console, output, outcome, launcher.pids, prepared, told)
        seconds, world = ended - record.started, record.world_size
        last = report.summary(run.id, outcome, seconds, world, str(run.logs))
        if not launcher.pids:
            last = report.nothing_started(run.id, outcome)
        _write_end(run, record.ended_with(outcome, ended), console)
        console.say(last, "error" if outcome.exit_code else "info")
    finally:
        console.close()
        output.close()
        loop.close()
    return outcome.exit_code


def _record(request: Request, prepared: Prepared, run: RunDir, env: Mapping[str, str]) -> RunRecord:
    plan = prepared.plan
    command = redact_arguments((request.script, *request.args), env)
    return RunRecord(
        id=run.id,
        name=request.name,
        state=RUNNING,
        started=time.time(),
        command=command,
        cwd=plan.workers[0].cwd or "",
        world_size=plan.topology.world_size,
        plan=_without_arguments(plan.to_json()),
        launcher_pid=os.getpid(),
        version=__version__,
    )


def _without_arguments(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan as it is recorded: the ds_config has a file, the command is there once."""
    workers = [
        {name: value for name, value in worker.items() if name != "argv"}
        for worker in plan["workers"]
    ]
    kept = {name: value for name, value in plan.items() if name != "ds_config"}
    return {**kept, "workers": workers}


def _make_run(
    request: Request, prepared: Prepared, run: RunDir, record: RunRecord, console: Console
) -> Output:
    """Make the run directory with all its files; a record is written once nothing can fail."""
    run.create()
    if prepared.ds.config is not None:
        run.write_text(run.ds_config, to_json(prepared.ds.config))
    loss_scale, ranks = _loss_scale(prepared.ds.config), range(record.world_size)
    output = Output(run, console, ranks, loss_scale, verbose=request.verbose)
    run.write_record(record)
    return output


def _write_end(run: RunDir, record: RunRecord, console: Console) -> None:
    """Write how the run ended; a full disk does not change how it did."""
    try:
        run.write_record(record)
    except InputError as error:
        console.say(str(error), "error")


def make_console(loop: Loop, prepared: Prepared, env: Mapping[str, str], *, quiet: bool) -> Console:
    """Return the console of a run, with the tags of its ranks."""
    topology = prepared.plan.topology
    hosts = {w.rank: topology.nodes[w.node_rank].host for w in topology.workers}
    labels = report.labels(hosts, topology.world_size, len(topology.nodes))
    return Console(loop, labels, prepared.console_ranks, env, quiet=quiet)


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


def _introduce(console: Console, prepared: Prepared, run: RunDir, *, verbose: bool) -> None:
    """At most two lines, and what the user should know."""
    plan, ds = prepared.plan, prepared.ds
    world, at = plan.topology.world_size, plan.rendezvous
    ranks = f"{world} rank{'s' if world != 1 else ''}"
    meeting = f", meeting at {at.address}:{at.port}" if at.address and at.port else ""
    console.say(f"run {run.id}: {ranks} on {describe_place(prepared.place)}{meeting}")
    if ds.config is not None and (prepared.uses_ds_config or verbose):
        console.say(f"{describe_ds_config(ds, world)}; {run.ds_config}")
    for note in prepared.notes:
        console.say(note)
    for detail in prepared.details if verbose else ():
        console.say(detail)


def describe_ds_config(ds: DsConfig, world_size: int) -> str:
    """`zero2 bf16: batch 32 = 4 x 4 accumulated x 2 ranks`."""
    name = f"{ds.name} {ds.precision}" if ds.precision else ds.name
    if ds.batch is None:
        return name
    batch = ds.batch
    return (
        f"{name}: batch {batch.train} = {batch.micro} x {batch.accumulation} accumulated "
        f"x {world_size} ranks"
    )


def describe_place(place: Place) -> str:
    """`the CPU`, `GPU 3`, `GPUs 3,1` in rank order; `a:4, b:2` for hosts and their ranks."""
    if place.remote:
        named = [(f"[{h.name}]" if ":" in h.name else h.name, len(h.slots)) for h in place.hosts]
        return ", ".join(f"{name}:{count}" for name, count in named)
    slots = place.devices.slots
    if place.devices.kind == "cpu":
        return "the CPU"
    return f"GPU{'s' if len(slots) > 1 else ''} {','.join(map(str, slots))}"


def _conclude(
    console: Console,
    output: Output,
    outcome: Outcome,
    pids: Mapping[int, int],
    prepared: Prepared,
    told: Sequence[str],
) -> None:
    """The loss scale's verdict, and where a rank failed its own last words, last."""
    verdict = report.loss_scale(output.loss_scale())
    if verdict is not None:
        console.say(*verdict)
    untold = report.untold(outcome.trouble, told)
    if untold:
        console.say(untold, "error")
    rest = report.others(outcome)
    if rest is not None:
        console.say(rest)
    first = outcome.first_failure
    if first is not None:
        where = describe_rank(first.rank, prepared)
        console.say(report.failure(first, pids.get(first.rank), where), "error")
        console.quote(first.rank, output.last_words(first.rank))


def describe_rank(rank: int, prepared: Prepared) -> str:
    """`GPU 3`, or `a, GPU 3` on many hosts: where a rank is."""
    worker = prepared.plan.topology.workers[rank]
    where = [f"GPU {worker.slot}"] if prepared.place.devices.kind == "cuda" else []
    if prepared.place.remote:
        where.insert(0, prepared.plan.topology.nodes[worker.node_rank].host)
    return ", ".join(where)
