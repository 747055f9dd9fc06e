"""The part of a launch in which its nodes take leases: told to the user, and bounded in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from zlaunch.launcher.agents import Agents
from zlaunch.launcher.hooks import Hooks
from zlaunch.launcher.leasing import Leasing, Wanted, Watcher
from zlaunch.launcher.report import duration
from zlaunch.run.messages import Leased
from zlaunch.run.state import Happening, LimitRanOut, NodesUnfit
from zlaunch.spec.plan import Plan
from zlaunch.spec.slots import Slot, gpus_in_words
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop, Timer

_WAYS = "--wait waits for them, --idle takes others, --share-gpus uses them all the same"
_WITHOUT_IDLE = "without --idle GPUs are taken as they are"


class LeaseStage:
    """Comes before the look at the nodes; `go_on` is called with the plan as it is then."""

    def __init__(
        self,
        loop: Loop,
        agents: Agents,
        console: Console,
        plan: Plan,
        wanted: Wanted,
        hooks: Hooks,
        go_on: Callable[[Plan], None],
        happen: Callable[[Happening], None],
    ) -> None:
        self._loop = loop
        self._console = console
        self._plan = plan
        self._wanted = wanted
        self._hooks = hooks
        self._go_on = go_on
        self._happen = happen
        self._begun = 0.0
        self._limit: Timer | None = None
        watcher = Watcher(self._taken, self._refused, self._waiting, self._note)
        self._leasing = Leasing(agents, plan.run_id, wanted, watcher)

    def begin(self, nodes: Collection[int]) -> None:
        """Ask `nodes`, all of which are ready."""
        self._begun = time.monotonic()
        self._leasing.begin(nodes)

    def take(self, answer: Leased) -> None:
        """Note what a node says."""
        self._leasing.take(answer)

    def _taken(self, slots: Mapping[int, tuple[Slot, ...]]) -> None:
        plan = self._plan.placed_on(slots)
        if self._limit is not None:
            self._limit.cancel()
            self._hooks.on_waiting("")
        if self._limit is not None or self._wanted.idle:
            waited = duration(time.monotonic() - self._begun)
            after = f" after {waited}" if self._limit is not None else ""
            self._console.say(f"taken{after}: {self._in_words(slots)}")
        if plan != self._plan:
            self._hooks.on_placed(plan)
        self._go_on(plan)

    def _in_words(self, slots: Mapping[int, tuple[Slot, ...]]) -> str:
        return ", ".join(
            self._on(node_rank, gpus_in_words(taken)) for node_rank, taken in slots.items()
        )

    def _on(self, node_rank: int, words: str) -> str:
        """Name the host, where there are several."""
        nodes = self._plan.topology.nodes
        return f"{nodes[node_rank].host}: {words}" if nodes[1:] else words

    def _refused(self, why: Mapping[int, str], busy: bool) -> None:
        lines = [self._on(node_rank, words) for node_rank, words in why.items()]
        hint = f"\n  hint: {_WAYS if busy else _WITHOUT_IDLE}"
        self._happen(NodesUnfit("\n".join(lines) + "; nothing was started" + hint))

    def _waiting(self, why: Mapping[int, str]) -> None:
        words = "; ".join(self._on(node_rank, text) for node_rank, text in why.items())
        self._console.say(f"waiting for GPUs: {words}")
        self._hooks.on_waiting(words)
        if self._limit is None:
            self._limit = self._loop.after(self._wanted.wait, self._run_out)

    def _run_out(self) -> None:
        waits = "; ".join(self._on(rank, text) for rank, text in self._leasing.why.items())
        words = f"the GPUs were not free within {duration(self._wanted.wait)} (--wait): {waits}"
        self._console.say(words, "error")
        self._happen(LimitRanOut(words))

    def _note(self, node_rank: int, note: str) -> None:
        self._console.say(self._on(node_rank, note), "warning")
