"""Asks all agents where their ranks are, and gathers the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from zlaunch.launcher.agents import Agents
from zlaunch.run.messages import Stacks, TakeStacks
from zlaunch.run.orders import DUMP_PATIENCE
from zlaunch.system.loop import Loop, Timer

_WITHIN = {"once": 2.0, "often": 3.0, "thoroughly": 4.0}  # seconds for an agent to look
_LATE = 1.5  # seconds beyond, for what comes over a network

How = Literal["once", "often", "thoroughly"]
OnAnswers = Callable[[Mapping[int, Stacks]], None]


@dataclass
class _Call:
    """One question that is under way."""

    number: int
    waiting: set[int]
    timer: Timer
    on_end: list[OnAnswers]
    answers: dict[int, Stacks] = field(default_factory=dict)


class StackCall:
    """One question at a time of each kind; who asks meanwhile gets the same answers."""

    def __init__(self, loop: Loop, agents: Agents) -> None:
        self._loop = loop
        self._agents = agents
        self._calls: dict[How, _Call] = {}
        self._count = 0

    def ask(self, ranks: set[int], on_end: OnAnswers, how: How) -> None:
        """Ask where `ranks` are; those that do not answer in time are missing at the end."""
        call = self._calls.get(how)
        if call is not None:
            call.on_end.append(on_end)
            return
        self._count += 1
        within = _WITHIN[how]
        patience = within + _LATE + (DUMP_PATIENCE if how == "thoroughly" else 0.0)
        timer = self._loop.after(patience, lambda: self._end(how))
        self._calls[how] = _Call(self._count, set(ranks), timer, [on_end])
        self._agents.order(TakeStacks(self._count, within, how))
        self._end_if_over()

    def take(self, stacks: Stacks) -> None:
        """Take in an answer."""
        for call in self._calls.values():
            if call.number == stacks.ask:
                call.answers[stacks.rank] = stacks
                call.waiting.discard(stacks.rank)
        self._end_if_over()

    def forget(self, rank: int) -> None:
        """A rank that has ended answers no more."""
        for call in self._calls.values():
            call.waiting.discard(rank)
        self._end_if_over()

    def _end_if_over(self) -> None:
        for how in [kind for kind, call in self._calls.items() if not call.waiting]:
            self._end(how)

    def _end(self, how: How) -> None:
        call = self._calls.pop(how)
        call.timer.cancel()
        for on_end in call.on_end:
            on_end(call.answers)
