"""Before any worker starts: looks at all nodes at once, and finds where rank 0 can be met."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.launcher.agents import Agents
from zlaunch.run.findings import Examined, Finding, judge
from zlaunch.run.messages import (
    FindRoute,
    Inspect,
    Inspected,
    Listen,
    Listening,
    Reach,
    Reached,
    Routed,
)
from zlaunch.spec.environment import Rendezvous
from zlaunch.spec.facts import Facts, Question
from zlaunch.spec.plan import Plan

Answer = Inspected | Listening | Reached | Routed
ANSWERS = (Inspected, Listening, Reached, Routed)

LOOPBACK = "127.0.0.1"
_CONNECT = 5.0  # seconds for a connection between two nodes
_NO_WAY = "it knows no way to the other nodes"


@frozen
class Asked:
    """What the nodes are asked: the same `question` of all, each with its own plan.

    `needed` and `digest` are as in `Examined`. `within` bounds the looking, in seconds.
    """

    question: Question
    needed: tuple[str, ...] = ()
    digest: str | None = None
    within: float = 30.0


@frozen
class Fitness:
    """How the nodes were found: what is wrong, what each said, and where rank 0 is met."""

    findings: tuple[Finding, ...]
    facts: Mapping[int, Facts]
    clocks: Mapping[int, tuple[float, float]]
    rendezvous: Rendezvous


class Preflight:
    """Asks each node about itself, and each whether it reaches node 0; both at the same time.

    Without `asked` only the rendezvous is found. `on_end` is called once.
    """

    def __init__(
        self, agents: Agents, plan: Plan, asked: Asked | None, on_end: Callable[[Fitness], None]
    ) -> None:
        self._agents = agents
        self._plan = plan
        self._node_plans = plan.node_plans  # made anew at each look
        self._asked = asked
        self._on_end = on_end
        self._silent: set[int] = set()  # nodes that have not said how they are
        self._facts: dict[int, Facts] = {}
        self._problems: dict[int, str] = {}
        self._unmet: set[int] = set()  # nodes that have not said whether they reach node 0
        self._meeting = True  # whether it is still to be found out where rank 0 is met
        self._address = plan.rendezvous.address
        self._port = plan.rendezvous.port
        self._nodes: tuple[int, ...] = ()
        self._taken = ""  # why node 0 cannot listen
        self._lost: set[int] = set()
        self._ended = False

    def begin(self, nodes: Collection[int]) -> None:
        """Ask `nodes`, all of which are ready."""
        self._nodes = tuple(sorted(nodes))
        self._port = self._port or self._agents.ready(self._nodes[0]).port
        if self._asked is not None:
            self._silent = set(nodes)
            for node_rank in self._nodes:
                self._agents.order_one(node_rank, self._inspect(node_rank, self._asked))
        self._find_address()
        self._end_if_over()

    def take(self, answer: Answer) -> None:
        """Note what a node says."""
        if isinstance(answer, Inspected):
            self._silent.discard(answer.node_rank)
            self._facts[answer.node_rank] = answer.facts
        elif isinstance(answer, Routed):
            self._found(answer)
        elif isinstance(answer, Listening):
            self._listening(answer)
        else:
            self._unmet.discard(answer.node_rank)
            if answer.problem:
                where = f"{self._address}:{self._port} of node 0 cannot be reached"
                self._problems[answer.node_rank] = f"{where}: {answer.problem}"
        self._end_if_over()

    def lose(self, node_rank: int) -> None:
        """Go on without a node that is gone."""
        self._lost.add(node_rank)
        if not self._nodes:  # not begun
            return
        self._silent.discard(node_rank)
        self._unmet.discard(node_rank)
        if node_rank == self._nodes[0]:
            self._meeting = False
        self._end_if_over()

    def _inspect(self, node_rank: int, asked: Asked) -> Inspect:
        plan = self._node_plans[node_rank]
        return Inspect(
            replace(plan, workers=plan.workers[:1], files=()), asked.question, asked.within
        )

    # Where rank 0 is met

    def _find_address(self) -> None:
        """Unless the user said where, it is node 0's address on the way to its peers."""
        first, peers = self._nodes[0], self._nodes[1:]
        if not self._address:
            peer = (peers and self._agents.ready(peers[0]).address) or self._agents.ready(
                first
            ).peer
            if peer:
                self._agents.order_one(first, FindRoute(peer))
                return
            self._address = LOOPBACK  # neither was reached over a network
        self._listen()

    def _found(self, answer: Routed) -> None:
        self._address = answer.address
        if answer.address:
            self._listen()
        else:
            self._fail_to_meet(f"{_NO_WAY}; give --master-addr")

    def _listen(self) -> None:
        if self._asked is None:
            self._meeting = False
        else:
            self._agents.order_one(self._nodes[0], Listen(self._plan.rendezvous.port))

    def _listening(self, answer: Listening) -> None:
        if answer.problem:
            self._taken = f"port {answer.port} cannot be had: {answer.problem}"
            self._meeting = False
            return
        self._meeting = False
        self._unmet = set(self._nodes)
        for node_rank in self._nodes:
            self._agents.order_one(node_rank, Reach(self._address, self._port, _CONNECT))

    def _fail_to_meet(self, problem: str) -> None:
        self._meeting = False
        self._problems[self._nodes[0]] = problem

    # The end

    def _end_if_over(self) -> None:
        if self._ended or self._meeting or self._silent or self._unmet:
            return
        self._ended = True
        here = [node_rank for node_rank in self._nodes if node_rank not in self._lost]
        clocks = {node_rank: self._agents.clock(node_rank) for node_rank in here}
        findings = judge([self._examined(node_rank, clocks) for node_rank in here])
        met = Rendezvous(self._address, self._port)
        self._on_end(Fitness(findings, self._facts, clocks, met))

    def _examined(self, node_rank: int, clocks: Mapping[int, tuple[float, float]]) -> Examined:
        """Put together what is known of a node."""
        asked = self._asked or Asked(Question())
        node = self._plan.topology.nodes[node_rank]
        worker = self._node_plans[node_rank].workers[0]
        question, facts = asked.question, self._facts.get(node_rank)
        return Examined(
            host=node.host,
            facts=facts or Facts(),
            slots=node.slots,
            gpus=question.gpus,
            directory=worker.cwd or "",
            program=worker.argv[0],
            script=question.script,
            digest=None if facts is None or facts.trouble else asked.digest,
            module=question.module,
            needed=asked.needed,
            clock=clocks[node_rank],
            port_taken=self._taken if node_rank == self._nodes[0] else "",
            port_problem=self._problems.get(node_rank, ""),
        )


def describe(findings: Collection[Finding]) -> str:
    """One line a host, with all that is wrong on it."""
    lines: dict[str, list[str]] = {}
    for finding in findings:
        lines.setdefault(finding.host, []).append(finding.text)
    hints = dict.fromkeys(finding.hint for finding in findings if finding.hint)
    codes = ",".join(dict.fromkeys(finding.code for finding in findings))
    count = f"{len(lines)} host{'s are' if len(lines) > 1 else ' is'} not fit for this run"
    return "\n".join(
        [
            f"{count}; nothing was started",
            *(f"  {host}: {'; '.join(texts)}" for host, texts in lines.items()),
            *(f"  hint: {hint}" for hint in hints),
            f"  hint: --allow {codes} starts all the same",
        ]
    )
