"""What lies between ready nodes and the start of ranks: leases of devices, and the look."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from zlaunch.launcher.agents import Agents
from zlaunch.launcher.hooks import Hooks
from zlaunch.launcher.lease_stage import LeaseStage
from zlaunch.launcher.leasing import Wanted
from zlaunch.launcher.preflight import ANSWERS, Answer, Asked, Fitness, Preflight, describe
from zlaunch.run.messages import Leased
from zlaunch.run.state import Happening, NodesFit, NodesUnfit
from zlaunch.spec.plan import Plan
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop


class Admission:
    """Lets a run start once its nodes hold their devices and are fit, as far as is asked.

    `plan` is as it is by then: which GPUs ranks have may be known only with the leases.
    """

    def __init__(
        self,
        loop: Loop,
        agents: Agents,
        console: Console,
        plan: Plan,
        asked: Asked | None,
        allowed: Collection[str],
        wanted: Wanted | None,
        hooks: Hooks,
        happen: Callable[[Happening], None],
    ) -> None:
        """`asked` is what nodes are looked at for; `allowed` holds codes of what may be wrong.

        `wanted` are leases, None for none.
        """
        self.plan = plan
        self._agents = agents
        self._console = console
        self._asked, self._allowed = asked, allowed
        self._happen = happen
        self._nodes: Collection[int] = ()
        self._preflight = Preflight(agents, plan, asked, self._judge)
        self._leases: LeaseStage | None = None
        if wanted is not None:
            own = (hooks, self._look, happen)
            self._leases = LeaseStage(loop, agents, console, plan, wanted, *own)

    @property
    def takers(self) -> dict[type, Callable[[Any], None]]:
        """Who takes the answers of nodes."""
        own: dict[type, Callable[[Any], None]] = dict.fromkeys(ANSWERS, self._take)
        return own if self._leases is None else {**own, Leased: self._leases.take}

    def begin(self, nodes: Collection[int], attempt: int) -> None:
        """The first time all is asked; later only where rank 0 is met is to be found out."""
        self._nodes = nodes
        if attempt:
            self._preflight = Preflight(self._agents, self.plan, None, self._judge)
        if self._leases is not None and not attempt:
            self._leases.begin(nodes)
        else:
            self._preflight.begin(nodes)

    def lose(self, node_rank: int) -> None:
        """Go on without a node that is gone."""
        self._preflight.lose(node_rank)

    def _take(self, answer: Answer) -> None:
        self._preflight.take(answer)

    def _look(self, plan: Plan) -> None:
        """Each node holds its devices, which this plan names."""
        self.plan = plan
        self._preflight = Preflight(self._agents, plan, self._asked, self._judge)
        self._preflight.begin(self._nodes)

    def _judge(self, fitness: Fitness) -> None:
        """Go on where all nodes are fit, as far as the user allows no less."""
        wrong = [f for f in fitness.findings if not f.warning and f.code not in self._allowed]
        if wrong:
            self._happen(NodesUnfit(describe(wrong)))
            return
        for finding in fitness.findings:
            self._console.say(f"{finding.host}: {finding.text}", "warning")
        self._happen(NodesFit(fitness.rendezvous.address, fitness.rendezvous.port))
