"""Starts the workers of a node, once their operators are built: each by itself, or most warm."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Callable

from zlaunch.agent.commands import node_environment, with_interpreter
from zlaunch.agent.operators import OperatorBuild
from zlaunch.agent.stacks import StackTaker
from zlaunch.agent.stdin import Stdins
from zlaunch.agent.warm import Outcome, WarmStart
from zlaunch.agent.warm_doubt import Rank, doubt
from zlaunch.run.messages import Event, Refused
from zlaunch.spec.worker import NodePlan, WorkerSpec
from zlaunch.system.loop import Loop
from zlaunch.system.spawn import Leader, Process
from zlaunch.system.stdio import Stdio


class Starter:
    """Starts what a plan asks for.

    Children call `admit` first, with 0; the server of a warm start, which has not forked by then,
    does not wait for that, and is put there by its pid. `on_started` gets each rank that runs, with
    what its imports have printed; `on_over` the ranks that were stopped before they were started.
    It is called where not all was over at once.
    """

    def __init__(
        self,
        loop: Loop,
        send: Callable[[Event], None],
        note: Callable[[str, str], None],
        stdins: Stdins,
        admit: Callable[[int], None],
        on_started: Callable[[WorkerSpec, Leader, Stdio, bytes], None],
        on_over: Callable[[Sequence[int]], None],
    ) -> None:
        self._loop = loop
        self._send = send
        self._note = note
        self._stdins = stdins
        self._admit = admit
        self._enter = partial(admit, 0)
        self._on_started = on_started
        self._on_over = on_over
        self._build: OperatorBuild | None = None
        self._warm: WarmStart | None = None
        self._stopped = False
        self._stacks: StackTaker

    @property
    def pending(self) -> bool:
        """Whether ranks are still to come."""
        return self._build is not None or self._warm is not None

    def start(self, plan: NodePlan, stacks: StackTaker) -> None:
        """Start every rank; one that cannot be is refused."""
        shared = node_environment(plan)
        self._stopped = False
        self._stacks = stacks
        ranks = [
            Rank(replace(spec, argv=with_interpreter(plan, spec)), {**shared, **spec.env})
            for spec in plan.workers
        ]
        if not self._begin_build(plan, ranks):
            self._start_all(plan, ranks)

    def _start_all(self, plan: NodePlan, ranks: list[Rank]) -> None:
        for rank in self._begin_warm(plan, ranks):
            self._start_one(rank)

    def _start_one(self, rank: Rank) -> None:
        spec, env = rank.spec, self._stacks.dressed(rank.env)
        try:
            stdio = Stdio.open(spec.stdin)
            self._stdins.size_terminal(spec.rank, stdio)
            process = Process(spec.argv, env, spec.cwd, stdio, self._enter)
        except OSError as error:
            self._send(Refused(spec.rank, _word(error, spec, env)))
            return
        except (ValueError, subprocess.SubprocessError) as error:
            self._send(Refused(spec.rank, f"{spec.argv[0]}: {error}"))
            return
        self._on_started(spec, process, stdio, b"")

    # Operators

    def _begin_build(self, plan: NodePlan, ranks: list[Rank]) -> bool:
        """Have missing operators built first; False where there is nothing to look for."""
        if plan.operators is None:
            return False
        first, go_on = ranks[0], partial(self._built, plan, ranks)
        try:
            self._build = OperatorBuild(
                self._loop, plan.operators, first.spec, first.env, self._enter, self._note, go_on
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return False  # the ranks' own start tells why, or needs nothing of what is lacking
        return True

    def _built(self, plan: NodePlan, ranks: list[Rank]) -> None:
        self._build = None
        if self._stopped:
            self._on_over([rank.spec.rank for rank in ranks])
            return
        self._start_all(plan, ranks)
        if not self.pending:
            self._on_over(())

    # Warm

    def _begin_warm(self, plan: NodePlan, ranks: list[Rank]) -> list[Rank]:
        """Have those forked that can be; return the others, as one that reads stdin."""
        if plan.preload is None:
            return ranks
        warm = [rank for rank in ranks if rank.spec.stdin == "null"]
        why = doubt(plan.preload, warm)
        if not why:
            try:
                self._warm = WarmStart(
                    self._loop, plan.preload, warm, plan.mark, self._stacks.handler,
                    self._admit, self._go_on,
                )  # fmt: skip
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                why = str(error)
        if why:
            if plan.preload.asked:
                self._note(f"cold start: {why}", "info")
            return ranks
        return [rank for rank in ranks if rank.spec.stdin != "null"]

    def _go_on(self, outcome: Outcome) -> None:
        """Hand over what was forked, and start the rest as ever."""
        self._warm = None
        for forked in outcome.forked:
            leader = Leader(forked.pid, forked.stdio.reading)
            self._on_started(forked.rank.spec, leader, forked.stdio, forked.said)
        if self._stopped:
            self._on_over([rank.spec.rank for rank in outcome.cold])
            return
        if outcome.why:
            self._note(f"cold start: {outcome.why}", "info")
        for rank in outcome.cold:
            self._start_one(rank)
        self._on_over(())

    def look(self) -> None:
        """A child has ended."""
        if self._warm is not None:
            self._warm.look()

    def stop(self, *, now: bool = False) -> None:
        """Start nobody any more; what is forked already is handed over yet.

        A build has a moment to clear up, unless it is to end `now`.
        """
        self._stopped = True
        if self._build is not None:
            self._build.end(now=now)
        if self._warm is not None:
            self._warm.end("stopped")

    def drop(self) -> None:
        """The same, and hand over nothing."""
        if self._build is not None:
            self._build.drop()
            self._build = None
        if self._warm is not None:
            self._warm.drop()
            self._warm = None


def _word(error: OSError, spec: WorkerSpec, env: Mapping[str, str]) -> str:
    """The system's own word, and of what is too large the largest part."""
    word = f"{error.filename or spec.argv[0]}: {error.strerror}"
    if error.errno != errno.E2BIG or not env:
        return word
    name = max(env, key=lambda name: len(env[name]))
    return f"{word}; the largest variable is {name} with {len(env[name])} characters"
