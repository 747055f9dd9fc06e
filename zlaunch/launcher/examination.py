"""Looks at hosts and starts nothing: what `zlaunch doctor` does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zlaunch.backends.base import Backend
from zlaunch.backends.remote import SETUP_FAILED
from zlaunch.frozen import frozen
from zlaunch.launcher.agents import Agents, Patience
from zlaunch.launcher.preflight import ANSWERS, Asked, Fitness, Preflight
from zlaunch.run.findings import Finding
from zlaunch.run.messages import Message, Ready
from zlaunch.spec.plan import Plan
from zlaunch.system.loop import Loop


@frozen
class Examined:
    """What came of it: the `fitness` of the hosts that were reached, None where none was.

    `hosts` are all of them, by node rank.
    """

    hosts: tuple[str, ...]
    fitness: Fitness | None
    ready: Mapping[int, Ready]
    unreachable: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that is wrong."""
        return (*self.unreachable, *(self.fitness.findings if self.fitness else ()))


class Examination:
    """Reaches every node, asks those that answer, and lets go of them. Used once."""

    def __init__(
        self, plan: Plan, backend: Backend, loop: Loop, patience: Patience, asked: Asked
    ) -> None:
        self._plan = plan
        self._loop = loop
        self._agents = Agents(loop, backend, patience, self._take, self._lose)
        self._preflight = Preflight(self._agents, plan, asked, self._end)
        self._awaited = {node.rank for node in plan.topology.nodes}
        self._ready: dict[int, Ready] = {}
        self._unreachable: dict[int, Finding] = {}
        self._fitness: Fitness | None = None

    def run(self) -> Examined:
        """Return what was found."""
        try:
            self._agents.reach(self._plan.topology.nodes)
            if self._awaited or self._ready:
                self._loop.run()
        finally:
            self._agents.close()
        unreachable = (self._unreachable[node_rank] for node_rank in sorted(self._unreachable))
        hosts = tuple(node.host for node in self._plan.topology.nodes)
        return Examined(hosts, self._fitness, self._ready, tuple(unreachable))

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if isinstance(message, Ready):
                self._ready[message.node_rank] = message
                self._await_no_longer(message.node_rank)
            elif isinstance(message, ANSWERS):
                self._preflight.take(message)

    def _lose(self, node_rank: int, reason: str) -> None:
        host = self._plan.topology.nodes[node_rank].host
        text = reason.removeprefix(f"{host}: ")
        code = "setup" if text.startswith(SETUP_FAILED) else "unreachable"
        self._unreachable[node_rank] = Finding(host, code, text)
        self._ready.pop(node_rank, None)
        if node_rank in self._awaited:
            self._await_no_longer(node_rank)
        else:
            self._preflight.lose(node_rank)

    def _await_no_longer(self, node_rank: int) -> None:
        """Once it is known of each node whether it can be reached, ask those that can."""
        self._awaited.discard(node_rank)
        if self._awaited:
            return
        if self._ready:
            self._preflight.begin(self._ready)
        else:
            self._loop.stop()

    def _end(self, fitness: Fitness) -> None:
        self._fitness = fitness
        self._loop.stop()
