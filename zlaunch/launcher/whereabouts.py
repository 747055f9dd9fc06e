"""Where the ranks of a run are: told when asked for, and when none makes progress any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from zlaunch.frozen import frozen
from zlaunch.insight.roll_call import Answer, RollCall, call_roll
from zlaunch.launcher.agents import Agents
from zlaunch.launcher.hang_watch import HangWatch
from zlaunch.launcher.report import describe_exit, duration
from zlaunch.launcher.stack_call import StackCall
from zlaunch.run.messages import Exit, Stacks
from zlaunch.spec.plan import Plan
from zlaunch.spec.ranks import describe_ranks
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop

_MOST_AGES = 4
_DUMPING = b"preparing to dump debug info"  # of ProcessGroupNCCL's monitor


@frozen
class StackOptions:
    """How stacks are taken.

    `handler` is what workers get for it, empty for none. After `limit` seconds without progress
    (None: that is not watched) the roll is called, and with `stop` the run ended. `keep` writes
    a roll-call down and returns where; None where that is not possible.
    """

    handler: str = ""
    limit: float | None = None
    stop: bool = False
    keep: Callable[[str], str | None] = lambda _: None


class Whereabouts:
    """Hears what the launcher hears of its ranks. `on_limit` is called to end the run."""

    def __init__(
        self,
        loop: Loop,
        agents: Agents,
        console: Console,
        plan: Plan,
        options: StackOptions,
        on_limit: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._console = console
        self._plan = plan
        self._options = options
        self._on_limit = on_limit
        self._call = StackCall(loop, agents)
        self._begun = 0.0
        self._wrote: dict[int, float] = {}  # when each rank wrote last
        self._last_progress = 0.0  # that was seen without a look
        self._ended: dict[int, Exit] = {}
        self._gone: set[int] = set()
        self._started: set[int] = set()
        self._watch: HangWatch | None = None

    # What happens

    def begin(self) -> None:
        """The workers are about to start; what is known is of those of the attempt before."""
        self._begun = time.monotonic()
        self._wrote, self._ended, self._gone, self._started = {}, {}, set(), set()
        if self._options.limit is not None:
            self._watch = HangWatch(
                self._loop,
                self._options.limit,
                lambda how, on_end: self._call.ask(self._there(), on_end, how),
                self._heard,
                self._hangs,
                lambda: self._console.say("ranks make progress again"),
            )
            self._watch.begin()

    def stop_watching(self) -> None:
        """The run is being stopped: whoever makes no progress now is not hanging."""
        if self._watch is not None:
            self._watch.end()

    def _heard(self) -> float:
        """When there was progress; as long as ranks are still to come, their nodes are at work."""
        if len(self._started | self._gone) < len(self._ranks):
            self._last_progress = time.monotonic()
        return self._last_progress

    def started(self, rank: int) -> None:
        """A rank runs."""
        self._started.add(rank)
        self._last_progress = time.monotonic()

    def wrote(self, rank: int, data: bytes) -> None:
        """A rank has written something; that it dumps its flight recorder we have asked for."""
        if _DUMPING in data and all(_DUMPING in line for line in data.splitlines()):
            return
        self._last_progress = self._wrote[rank] = time.monotonic()

    def ended(self, rank: int, how: Exit | None = None) -> None:
        """A rank's main process is gone; to have come to its end is progress."""
        self._last_progress = time.monotonic()
        self._gone.add(rank)
        if how is not None:
            self._ended[rank] = how
        self._call.forget(rank)

    def take(self, stacks: Stacks) -> None:
        """An agent has answered for a rank."""
        self._call.take(stacks)

    # Asked for

    def call_roll(self, head: str, on_end: Callable[[RollCall, str | None], None]) -> None:
        """Find out where all ranks are, write it down, and pass it on with the path of that."""

        def gathered(answers: Mapping[int, Stacks]) -> None:
            roll = call_roll({rank: self._answer(rank, answers.get(rank)) for rank in self._ranks})
            on_end(roll, self._options.keep(roll.text(head)))

        if not self._begun:
            gathered({})
            return
        self._call.ask(self._there(), gathered, "thoroughly")

    @property
    def _ranks(self) -> range:
        return range(self._plan.topology.world_size)

    def _there(self) -> set[int]:
        return {rank for rank in self._ranks if rank not in self._gone}

    def _answer(self, rank: int, stacks: Stacks | None) -> Answer:
        topology = self._plan.topology
        host = topology.nodes[topology.workers[rank].node_rank].host
        wrote = self._wrote.get(rank, self._begun)
        silent = round(time.monotonic() - wrote, 1) if self._begun else None
        if rank in self._ended:
            why = f"has ended: {describe_exit(self._ended[rank])}"
            return Answer(host, why=why, silent_for=silent)
        if not self._begun:
            return Answer(host, why="is not started yet")
        if stacks is None:
            return Answer(host, why="no answer from its node in time", silent_for=silent)
        return Answer(host, "".join(stacks.texts), stacks.why, stacks.main, silent, stacks.flight)

    # A hang

    def _hangs(self, seconds: float, watch_on: Callable[[], None]) -> None:
        what = f"no rank has made progress for {duration(seconds)}"

        def tell(roll: RollCall, path: str | None) -> None:
            self._console.say(f"{what}: {roll.line}", "warning")
            for line in (*roll.flight, self._ages(roll)):
                self._console.say(line)
            stop = self._options.stop
            going = "" if stop else "; the run goes on, --on-hang stop would end it"
            self._console.say(f"stacks of all ranks: {path or 'could not be written'}{going}")
            if stop:
                self._on_limit(f"{what} (--hang-timeout)")
            else:
                watch_on()

        self.call_roll(f"run {self._plan.run_id}: {what}", tell)

    def _ages(self, roll: RollCall) -> str:
        """How old each rank's last line is."""
        ages: dict[int, set[int]] = {}
        for rank, answer in roll.answers.items():
            ages.setdefault(round(answer.silent_for or 0), set()).add(rank)
        ordered = sorted(ages.items(), reverse=True)
        if len(ordered) > _MOST_AGES:
            ordered = [ordered[0], ordered[-1]]
        told = (f"{describe_ranks(frozenset(who), 4)} {_age(age)} ago" for age, who in ordered)
        return f"last output: {', '.join(told)}"


def _age(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else duration(seconds)
