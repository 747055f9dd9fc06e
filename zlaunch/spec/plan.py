"""The whole of what a run will do, as data: for the agents, for --dry-run, for run.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zlaunch.frozen import frozen
from zlaunch.spec.environment import (
    Rendezvous,
    Surroundings,
    Target,
    of_attempt,
    shared_environment,
    worker_environment,
)
from zlaunch.spec.redact import redact_arguments, redact_environment, redact_values
from zlaunch.spec.slots import Slot
from zlaunch.spec.topology import Topology
from zlaunch.spec.worker import NodePlan, Operators, Preload, Stdin, WorkerSpec

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@frozen
class Command:
    """What each worker runs.

    `prefix` is interpreter and script (or program), `args` the user's arguments as typed.
    `local_rank_option`, where set, is added between them as `OPTION=LOCAL_RANK`, the place
    where DeepSpeed puts it.
    """

    prefix: tuple[str, ...]
    args: tuple[str, ...]
    cwd: str
    local_rank_option: str | None = None

    def argv(self, local_rank: int) -> tuple[str, ...]:
        """The argument vector of one worker."""
        option = self.local_rank_option
        extra = (f"{option}={local_rank}",) if option else ()
        return (*self.prefix, *extra, *self.args)


@frozen
class Plan:
    """All workers of a run; `env` is what they share, each spec's own env comes on top.

    `inherit`, `python`, `files`, `preferred`, `preload` and `operators` are as in NodePlan, and the
    same for all nodes.
    An empty rendezvous address, or port 0, is found out once all agents are ready.
    """

    run_id: str
    topology: Topology
    rendezvous: Rendezvous
    target: Target
    ds_config: Mapping[str, Any] | None
    env: Mapping[str, str]
    workers: tuple[WorkerSpec, ...]
    inherit: bool = False
    python: str = ""
    files: tuple[tuple[str, str], ...] = ()
    preferred: tuple[str, ...] = ()
    preload: Preload | None = None
    operators: Operators | None = None

    @property
    def node_plans(self) -> tuple[NodePlan, ...]:
        """What each agent is told, by node rank."""
        return tuple(
            NodePlan(
                node.rank,
                self.env,
                tuple(self.workers[worker.rank] for worker in self.topology.on_node(node.rank)),
                self.inherit,
                self.python,
                self.files,
                self.preferred,
                self.preload,
                self.operators,
            )
            for node in self.topology.nodes
        )

    def meeting_at(self, rendezvous: Rendezvous, attempt: int = 0) -> Plan:
        """Return the plan of an attempt, with the place of rank 0 filled in."""
        met = {"MASTER_ADDR": rendezvous.address, "MASTER_PORT": str(rendezvous.port)}
        workers = tuple(
            replace(spec, env={**spec.env, **met, **_of_attempt(spec, attempt)})
            for spec in self.workers
        )
        return replace(self, rendezvous=rendezvous, workers=workers)

    def placed_on(self, slots: Mapping[int, tuple[Slot, ...]]) -> Plan:
        """Return the plan with these slots, as many as before, by node rank."""
        topology = self.topology
        nodes = tuple(replace(n, slots=slots.get(n.rank, n.slots)) for n in topology.nodes)
        workers = tuple(
            replace(w, slot=nodes[w.node_rank].slots[w.local_rank]) for w in topology.workers
        )
        visible = {n.rank: {_VISIBLE: ",".join(map(str, n.slots))} for n in nodes}
        specs = tuple(
            replace(spec, env={**spec.env, **visible[worker.node_rank]})
            for worker, spec in zip(workers, self.workers, strict=True)
        )
        return replace(self, topology=Topology(nodes, workers), workers=specs)

    def with_stdin(self, rank: int, stdin: Stdin, env: Mapping[str, str]) -> Plan:
        """Return the plan in which this rank reads; `env` is for it alone."""
        reader = self.workers[rank]
        reader = replace(reader, stdin=stdin, env={**reader.env, **env})
        return replace(self, workers=(*self.workers[:rank], reader, *self.workers[rank + 1 :]))

    @property
    def sent(self) -> dict[str, str]:
        """What other hosts get of the environment, with secrets hidden."""
        if not self.inherit:
            return {}
        shown = redact_environment(self.env)
        return {name: redact_arguments((value,), self.env)[0] for name, value in shown.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data, with secrets hidden."""
        nodes = self.topology.nodes
        return {
            "run_id": self.run_id,
            "world_size": self.topology.world_size,
            # null for what is found out once all agents are ready
            "rendezvous": {
                "address": self.rendezvous.address or None,
                "port": self.rendezvous.port or None,
            },
            "nodes": [
                {
                    "node_rank": node.rank,
                    "host": node.host,
                    "address": node.address,
                    "slots": list(node.slots),
                }
                for node in nodes
            ],
            "workers": [
                {
                    "rank": worker.rank,
                    "local_rank": worker.local_rank,
                    "node_rank": worker.node_rank,
                    "host": nodes[worker.node_rank].host,
                    "slot": worker.slot,
                    "argv": list(redact_arguments(spec.argv, {**self.env, **spec.env})),
                    "env": redact_environment(spec.env),
                    "cwd": spec.cwd,
                    "stdin": spec.stdin,
                }
                for worker, spec in zip(self.topology.workers, self.workers, strict=True)
            ],
            "sent": self.sent,
            "ds_config": redact_values(self.ds_config, self.env),
            "target": self.target,
            "preload": [text for _, text in self.preload.imports] if self.preload else [],
            "operators": [name for name, _ in self.operators.builders] if self.operators else [],
        }


def _of_attempt(spec: WorkerSpec, attempt: int) -> dict[str, str]:
    return of_attempt(spec.env["ZLAUNCH_RUN_DIR"], spec.rank, attempt) if attempt else {}


def make_plan(
    topology: Topology,
    commands: Mapping[int, Command],
    around: Surroundings,
    ds_config: Mapping[str, Any] | None,
    extra_env: Sequence[tuple[str, str]] = (),
) -> Plan:
    """Give every rank of `topology` its arguments and environment; `commands` by node rank."""
    workers = tuple(
        WorkerSpec(
            worker.rank,
            commands[worker.node_rank].argv(worker.local_rank),
            {**dict(extra_env), **worker_environment(topology, worker, around)},
            commands[worker.node_rank].cwd,
        )
        for worker in topology.workers
    )
    return Plan(
        run_id=around.run_id,
        topology=topology,
        rendezvous=around.rendezvous,
        target=around.target,
        ds_config=ds_config,
        env=shared_environment(around.inherited),
        workers=workers,
    )
