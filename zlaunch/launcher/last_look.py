"""Letting go of agents, and a last look at nodes where one did not leave by itself.

On this machine nobody but us stands behind an agent. On another one its keeper does; where both
were killed at once, nobody is left there to end what the ranks have started, so another agent is
sent by the same way, does that and leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from zlaunch.backends.base import Backend
from zlaunch.launcher.agents import Agents, Patience
from zlaunch.run.messages import Message, Ready, Sweep
from zlaunch.spec.plan import Plan
from zlaunch.spec.topology import Node
from zlaunch.system.loop import Loop
from zlaunch.system.remains import end_of_dead_agent

_WITHIN = 5.0  # seconds; a host that is gone altogether is not waited for longer


def let_go(agents: Agents, backend: Backend, plan: Plan, *, started: bool) -> None:
    """Close all links; where ranks were `started`, see to nodes whose agent was killed."""
    dead_here = agents.close()
    if started:
        marks = {one.node_rank: one.mark for one in plan.node_plans}
        for node_rank in dead_here:
            end_of_dead_agent(marks[node_rank])
        _look_again(backend, [plan.topology.nodes[rank] for rank in agents.broken_off], marks)


def _look_again(
    backend: Backend, nodes: Iterable[Node], marks: Mapping[int, tuple[str, ...]]
) -> None:
    left = {node.rank: node for node in nodes}
    if not left:
        return
    loop = Loop()

    def done_with(node_rank: int, _reason: str = "") -> None:
        left.pop(node_rank, None)
        if not left:
            loop.stop()

    def take(messages: Iterable[Message]) -> None:
        for message in messages:
            if isinstance(message, Ready) and message.node_rank in left:
                agents.order_one(message.node_rank, Sweep(marks[message.node_rank]))
                # It obeys before it sees that the link is closed.
                loop.after(0.0, partial(done_with, message.node_rank))

    agents = Agents(loop, backend, Patience(connect=_WITHIN), take, done_with)
    try:
        agents.reach(tuple(left.values()))
        if left:
            loop.run()
    finally:
        agents.close()
        loop.close()
