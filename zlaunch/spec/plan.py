"""The whole of what a run will do, as data: for the agents, for --dry-run, for run.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zlaunch.spec.environment import (
    Rendezvous,
    Surroundings,
    Target,
    shared_environment,
    worker_environment,
)
from zlaunch.spec.redact import redact_arguments, redact_environment, redact_values
from zlaunch.spec.topology import Topology
from zlaunch.spec.worker import NodePlan, WorkerSpec


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Plan:
    """All workers of a run; `env` is what they share, each spec's own env comes on top.

    `inherit`, `python`, `files` and `preferred` are as in NodePlan, and the same for all nodes.
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
            )
            for node in self.topology.nodes
        )

    def meeting_at(self, rendezvous: Rendezvous) -> Plan:
        """Return the plan with the place of rank 0 filled in."""
        met = {"MASTER_ADDR": rendezvous.address, "MASTER_PORT": str(rendezvous.port)}
        workers = tuple(replace(spec, env={**spec.env, **met}) for spec in self.workers)
        return replace(self, rendezvous=rendezvous, workers=workers)

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
                }
                for worker, spec in zip(self.topology.workers, self.workers, strict=True)
            ],
            "sent": self.sent,
            "ds_config": redact_values(self.ds_config, self.env),
            "target": self.target,
        }


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
