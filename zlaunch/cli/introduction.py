"""What the console says of a run: at its beginning, and where each rank is."""

from __future__ import annotations

from collections.abc import Mapping

from zlaunch.cli.ds_config import DsConfig
from zlaunch.cli.place import Place
from zlaunch.cli.prepare import Prepared
from zlaunch.spec.ranks import rank_labels
from zlaunch.spec.slots import gpu_in_words, gpus_in_words
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop
from zlaunch.system.rundir import RunDir


def make_console(loop: Loop, prepared: Prepared, env: Mapping[str, str], *, quiet: bool) -> Console:
    """Return the console of a run, with the tags of its ranks."""
    topology = prepared.plan.topology
    hosts = {w.rank: topology.nodes[w.node_rank].host for w in topology.workers}
    labels = rank_labels(hosts, topology.world_size, len(topology.nodes))
    return Console(loop, labels, prepared.console_ranks, env, quiet=quiet)


def introduce(console: Console, prepared: Prepared, run: RunDir, *, verbose: bool) -> None:
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
    slots, pool = place.devices.slots, place.devices.pool
    if place.devices.kind == "cpu":
        return "the CPU"
    if pool:
        return f"{len(slots)} of {gpus_in_words(pool)} that nobody uses"
    return gpus_in_words(slots)


def describe_rank(rank: int, prepared: Prepared) -> str:
    """`GPU 3`, or `a, GPU 3` on many hosts: where a rank is."""
    worker = prepared.plan.topology.workers[rank]
    where = [gpu_in_words(worker.slot)] if prepared.place.devices.kind == "cuda" else []
    if prepared.place.remote:
        where.insert(0, prepared.plan.topology.nodes[worker.node_rank].host)
    return ", ".join(where)
