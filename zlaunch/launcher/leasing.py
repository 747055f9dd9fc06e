"""Before anything else on the nodes: each takes leases of its devices, or none does.

Who has to wait holds nothing meanwhile, so two launches over the same hosts never wait for each
other: where one node can take its devices and another cannot yet, the first gives them back. The
queues of all nodes have the same order, that of the launchers' clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from enum import Enum

from zlaunch.frozen import frozen
from zlaunch.launcher.agents import Agents
from zlaunch.run.messages import Lease, Leased, Leave
from zlaunch.spec.slots import Slot


@frozen
class Wanted:
    """What the user asks for.

    `counts` of the slots in `pools`, by node rank. `wait` is how long to wait for them, in seconds:
    0 not at all. `idle`, `folder`, `devices` and `nvml` are as in `Lease`.
    """

    pools: Mapping[int, tuple[Slot, ...]]
    counts: Mapping[int, int]
    wait: float = 0.0
    idle: bool = False
    folder: str = ""
    devices: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    nvml: str = field(default="", repr=False)


class _State(Enum):
    FREE = "holds nothing, and is not asked"
    ASKED = "has not answered"
    WAITING = "will answer again once it has taken its devices"
    HOLDS = "holds its devices"


@frozen
class Watcher:
    """Who hears of it. Each is called in the launcher's loop.

    `on_taken` with the slots of each node, once; `on_refused` with what is wrong, by node, and
    whether that is only that others hold or use devices;
    `on_waiting` with why, by node, each time that it changes; `say` with a note of a node.
    """

    on_taken: Callable[[Mapping[int, tuple[Slot, ...]]], None]
    on_refused: Callable[[Mapping[int, str], bool], None]
    on_waiting: Callable[[Mapping[int, str]], None]
    say: Callable[[int, str], None]


class Leasing:
    """Asks the nodes for leases until all hold theirs."""

    def __init__(self, agents: Agents, run_id: str, wanted: Wanted, watcher: Watcher) -> None:
        self._agents = agents
        self._run_id = run_id
        self._wanted = wanted
        self._watcher = watcher
        self._ticket = time.time_ns() if wanted.wait else 0
        self._states: dict[int, _State] = {}
        self._slots: dict[int, tuple[Slot, ...]] = {}
        self._why: dict[int, str] = {}
        self._equipped: set[int] = set()
        self._over = self._hopeless = False

    @property
    def why(self) -> Mapping[int, str]:
        """What each node that cannot take its devices waits for."""
        return self._why

    def begin(self, nodes: Collection[int]) -> None:
        """Ask `nodes`, all of which are ready."""
        self._states = dict.fromkeys(nodes, _State.FREE)
        self._go_on()

    def take(self, answer: Leased) -> None:
        """Note what a node says."""
        node_rank = answer.node_rank
        if self._over or node_rank not in self._states:
            return
        if answer.note:
            self._watcher.say(node_rank, answer.note)
        self._hopeless = self._hopeless or bool(answer.problem)
        if answer.problem or (answer.busy and not self._ticket):
            self._why[node_rank] = answer.problem or answer.busy
            self._states[node_rank] = _State.FREE
            self._refuse()
        elif answer.busy:
            self._states[node_rank] = _State.WAITING
            changed = self._why.get(node_rank) != answer.busy
            self._why[node_rank] = answer.busy
            if changed:
                self._watcher.on_waiting(dict(self._why))
            self._go_on()
        else:
            self._states[node_rank] = _State.HOLDS
            self._slots[node_rank] = answer.slots
            self._why.pop(node_rank, None)
            self._go_on()

    def _refuse(self) -> None:
        """Once all have answered, so that all that is wrong is told."""
        if _State.ASKED not in self._states.values():
            self._over = True
            self._watcher.on_refused(dict(self._why), not self._hopeless)

    def _go_on(self) -> None:
        states = set(self._states.values())
        if _State.ASKED in states:
            return
        if self._hopeless or (self._why and not self._ticket):
            self._refuse()
        elif states <= {_State.HOLDS}:
            self._over = True
            if self._ticket:
                self._agents.order(Leave(queue=True))
            self._watcher.on_taken({n: self._slots[n] for n in self._states})
        elif _State.WAITING in states:
            self._change(_State.HOLDS, _State.FREE)
        else:
            self._change(_State.FREE, _State.ASKED)

    def _change(self, state: _State, to: _State) -> None:
        for node_rank in [n for n, current in self._states.items() if current is state]:
            self._states[node_rank] = to
            asking = to is _State.ASKED
            order = self._lease(node_rank) if asking else Leave(devices=True)
            self._agents.order_one(node_rank, order)

    def _lease(self, node_rank: int) -> Lease:
        wanted = self._wanted
        nvml = "" if node_rank in self._equipped else wanted.nvml  # it is large
        self._equipped.add(node_rank)
        return Lease(
            run=self._run_id,
            slots=wanted.pools[node_rank],
            count=wanted.counts[node_rank],
            idle=wanted.idle,
            folder=wanted.folder,
            ticket=self._ticket,
            devices=wanted.devices,
            nvml=nvml,
        )
