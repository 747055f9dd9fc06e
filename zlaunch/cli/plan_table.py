"""The plan of a dry run, as a table for a person."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.table import Table

from zlaunch.cli.prepare import Prepared
from zlaunch.dsconfig.render import to_json
from zlaunch.spec.redact import redact_arguments, redact_values
from zlaunch.spec.slots import format_slots, gpu_in_words


def print_plan(prepared: Prepared) -> None:
    """Print rank, host, device and cuda:i of every worker, then the config."""
    plan = prepared.plan
    on_gpus = prepared.place.devices.kind == "cuda"
    table = Table("rank", "host", "local rank", "device", "in torch", title=None)
    for worker in plan.topology.workers:
        host = plan.topology.nodes[worker.node_rank].host
        device = gpu_in_words(worker.slot) if on_gpus else "CPU"
        name = f"cuda:{worker.local_rank}" if on_gpus else "cpu"
        table.add_row(str(worker.rank), host, str(worker.local_rank), device, name)
    console = Console(markup=False, highlight=False, soft_wrap=True)
    console.print(table)
    spec = plan.workers[0]
    command = shlex.join(redact_arguments(spec.argv, plan.env))
    console.print(f"rank 0 runs: {command}")
    console.print(f"in:          {spec.cwd}")
    for node in plan.topology.nodes[1:]:
        first = plan.workers[plan.topology.on_node(node.rank)[0].rank]
        other = shlex.join(redact_arguments(first.argv, plan.env))
        if (other, first.cwd) != (command, spec.cwd):
            console.print(f"{node.host} runs: {other}")
            console.print(f"  in:        {first.cwd}")
    at = plan.rendezvous
    known = f"{at.address}:{at.port}" if at.address and at.port else "found when all are ready"
    console.print(f"rendezvous:  {known}")
    console.print(f"target:      {plan.target}")
    if plan.operators is not None:
        names = ", ".join(name for name, _ in plan.operators.builders)
        console.print(f"built first: {names}, where missing")
    for name, value in sorted(plan.sent.items()):
        console.print(f"sent:        {name}={shlex.quote(value)}")
    for node_rank, pool in prepared.place.pools.items():
        host, slots = plan.topology.nodes[node_rank].host, format_slots(pool)
        console.print(f"--idle:      on {host} those of GPUs {slots} that are idle at the start")
    for note in prepared.notes:
        console.print(f"note:        {note}")
    if plan.ds_config is not None:
        console.print(f"ds_config ({prepared.ds.name}):")
        console.print(to_json(redact_values(plan.ds_config, plan.env)).rstrip())
