"""Carries out what was prepared: opens the run, has the launcher see it through, tells its end."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zlaunch.cli.allocation import job_time
from zlaunch.cli.hang import answer_stacks, stack_options
from zlaunch.cli.introduction import describe_rank, introduce, make_console
from zlaunch.cli.leases import tell_of_waiting, wanted_leases
from zlaunch.cli.metrics_port import answer_metrics, listen_for_scrapes, serve
from zlaunch.cli.new_run import make_files, new_record, recorded_plan
from zlaunch.cli.on_exit import on_exit
from zlaunch.cli.prepare import Prepared
from zlaunch.cli.request import Request
from zlaunch.cli.stdin_rank import introduce_debugging
from zlaunch.errors import InputError
from zlaunch.launcher import report
from zlaunch.launcher.answers import answers, streams
from zlaunch.launcher.control import Control, Handler
from zlaunch.launcher.ending import Background, Ending
from zlaunch.launcher.hooks import Hooks
from zlaunch.launcher.launcher import Launcher
from zlaunch.launcher.leasing import Wanted
from zlaunch.run.outcome import Outcome
from zlaunch.run.restarts import Restarts
from zlaunch.run.state import Rules
from zlaunch.spec.plan import Plan
from zlaunch.system.loop import Loop, ignore_stop_signals
from zlaunch.system.run_store import RunStore
from zlaunch.system.rundir import RunDir

if TYPE_CHECKING:
    from zlaunch.launcher.requeue import Requeue
    from zlaunch.system.background import Away


def carry_out(
    request: Request,
    prepared: Prepared,
    store: RunStore,
    run: RunDir,
    env: Mapping[str, str],
    away: Away | None,
) -> int:
    """Return the exit code of the run. `away` hears how its start goes, with --detach.

    Raises InputError, before anything has started, for what cannot be opened or made.
    """
    wanted = wanted_leases(request, prepared.place, env)
    listener = listen_for_scrapes(request.metrics_port)
    with ExitStack() as closing:
        open_run = _OpenRun(request, prepared, run, env, closing)
        launcher = open_run.launcher(wanted, store, away)
        open_run.let_others_ask(launcher, listener)
        outcome = launcher.run()
        why_again = open_run.why_again(outcome)
        if why_again:
            open_run.tell_of_next(outcome, launcher.pids, why_again)
        else:
            outcome, summary = open_run.tell_the_end(outcome, launcher.pids)
    if why_again:
        return open_run.put_back(outcome)
    on_exit(request, run, open_run.record, open_run.ending.cause, summary)
    ignore_stop_signals()
    if run.adopted is not None:
        from zlaunch.system.submission import forget_submission

        forget_submission(run)
    return outcome.exit_code


class _OpenRun:
    """A run with its directory, loop and console; `closing` closes them, the last opened first."""

    def __init__(
        self,
        request: Request,
        prepared: Prepared,
        run: RunDir,
        env: Mapping[str, str],
        closing: ExitStack,
    ) -> None:
        self._request, self._prepared, self._run, self._env = request, prepared, run, env
        self._closing = closing
        self.record = new_record(request, prepared, run, env)
        self._loop = Loop()
        self._console = make_console(self._loop, prepared, env, quiet=request.quiet)
        self._output = make_files(request, prepared, run, self.record, self._console, self._loop)
        for opened in (self._loop, self._output, self._console):
            closing.callback(opened.close)
        self.ending = Ending(self._console, self._output, _background(prepared))
        self._told: list[str] = []
        self._requeue: Requeue | None = None

    @property
    def _rules(self) -> Rules:
        request = self._request
        restarts = Restarts(request.max_restarts, request.healthy_after)
        patience = self._prepared.place.patience.connect
        return Rules(request.grace, patience, restarts, request.exit_limit)

    def launcher(self, wanted: Wanted | None, store: RunStore, away: Away | None) -> Launcher:
        """Make the launcher of this run, with what it has to tell us."""
        request, prepared, run, place = (
            self._request, self._prepared, self._run, self._prepared.place,
        )  # fmt: skip
        return Launcher(
            prepared.plan,
            place.backend,
            self._loop,
            self._console,
            self._output,
            self._rules,
            place.patience,
            prepared.asked,
            request.allow,
            Hooks(
                on_waiting=tell_of_waiting(run, away),
                on_placed=self._note_placed,
                on_start=self._begin(store, away),
                on_running=lambda: away.running(run.id) if away is not None else None,
                on_trouble=self._tell_trouble,
                on_failure=self.ending.get_ready,
                failed_of_its_own=self.ending.failed_of_its_own,
                on_failed_attempt=self.ending.tell,
            ),
            stack_options(request, run),
            request.forwarded,
            wanted,
            self.record.attempts_before,
        )

    def _begin(self, store: RunStore, away: Away | None) -> Callable[[], None]:
        def begin() -> None:
            _begin(store, self._run, away)
            if self._requeue is not None:
                self._requeue.begun()

        return begin

    def let_others_ask(self, launcher: Launcher, listener: socket.socket | None) -> None:
        """Open the run to other shells and to Prometheus, and say on the console that it begins."""
        request, run, loop, console = self._request, self._run, self._loop, self._console
        handlers: dict[str, Handler] = {
            **answers(launcher),
            "stacks": partial(answer_stacks, launcher.whereabouts, run),
            "metrics": partial(answer_metrics, self._output.metrics),
        }
        time_left = job_time(
            self._prepared.place.allocation, loop, console.say, launcher.forwarding
        )
        if run.adopted is not None:
            from zlaunch.cli.requeue import make_requeue

            say, rules = console.say, self._rules
            self._requeue = make_requeue(run, rules, loop, launcher, say, time_left)
        control = Control(loop, run, handlers, streams(launcher))
        introduce(console, self._prepared, run, verbose=request.verbose)
        port = serve(listener, loop, console, run.id, launcher, self._output.metrics)
        for opened in (port, time_left, control):
            if opened is not None:
                self._closing.callback(opened.close)
        self._closing.callback(run.wait_for, "")
        if request.live:
            from zlaunch.cli.live import show_live  # few look on

            show_live(loop, console, launcher.view, self.record, self._env)
        if request.debug:
            console.say(introduce_debugging(self._prepared.plan))

    def why_again(self, outcome: Outcome) -> str:
        """Say why the run goes on in another start of its job; "" where it does not."""
        return self._requeue.why_again(outcome) if self._requeue is not None else ""

    def tell_of_next(self, outcome: Outcome, pids: Mapping[int, int], why: str) -> None:
        """Say that the run goes on, and write it down."""
        from zlaunch.cli.requeue import queued_again

        assert self._requeue is not None
        if not self._requeue.warned:  # else that is why ranks ended
            self.ending.tell(outcome, pids)
        self.record = queued_again(self._run, self.record)
        told = f"run {self._run.id} goes back into the queue, as attempt {outcome.attempts}: {why}"
        self._console.say(told)

    def put_back(self, outcome: Outcome) -> int:
        """Have the job start again, last of all, since Slurm ends it for that."""
        from zlaunch.cli.requeue import put_back

        assert self._requeue is not None
        by_slurm = self._requeue.by_slurm
        return put_back(self._request, self._run, self.record, outcome, by_slurm=by_slurm)

    def tell_the_end(self, outcome: Outcome, pids: Mapping[int, int]) -> tuple[Outcome, str]:
        """Say and write down how it ended; return that, with what is known of the cause."""
        ended = time.time()
        outcome = self._seen_with_slurm(outcome, ended)
        untold = report.untold(outcome.trouble, self._told)
        if untold and outcome.job_end is None:  # that says it
            self._console.say(untold, "error")
        for line in report.attempts(outcome):
            self._console.say(line)
        outcome = self.ending.tell(outcome, pids)
        run, seconds, world = self._run, ended - self.record.started, self.record.world_size
        summary = report.summary(run.id, outcome, seconds, world, str(run.logs))
        if not pids:
            summary = report.nothing_started(run.id, outcome)
        self.record = self.record.ended_with(outcome, ended)
        try:
            run.write_record(self.record)
        except InputError as error:  # a full disk does not change how it ended
            self._console.say(str(error), "error")
        self._console.say(summary, "error" if outcome.exit_code else "info")
        return outcome, summary

    def _seen_with_slurm(self, outcome: Outcome, ended: float) -> Outcome:
        """Ask how Slurm ended the job, where it may have."""
        if not self.record.slurm_job or not outcome.exit_code:
            return outcome
        from zlaunch.cli.ending_job import may_be_slurms, seen_with_slurm

        backend = self._prepared.place.backend
        if not may_be_slurms(outcome, backend):
            return outcome
        return seen_with_slurm(outcome, backend, self._run, self.record, ended)

    def _note_placed(self, plan: Plan) -> None:
        """Which GPUs ranks have is known only now."""
        recorded = recorded_plan(plan, self._prepared.ds)
        self.record = replace(self.record, plan={**self.record.plan, **recorded})
        self._run.write_record(self.record)
        self.ending.move(_background(replace(self._prepared, plan=plan)))

    def _tell_trouble(self, trouble: str) -> None:
        self._console.say(trouble, "error")
        self._told.append(trouble)


def _begin(store: RunStore, run: RunDir, away: Away | None) -> None:
    """The first worker is about to start: `latest` is never a run in which none was."""
    store.set_latest(run)
    if away is not None:
        away.starting()


def _background(prepared: Prepared) -> Background:
    topology, ds = prepared.plan.topology, prepared.ds
    return Background(
        places={worker.rank: describe_rank(worker.rank, prepared) for worker in topology.workers},
        hosts={w.rank: topology.nodes[w.node_rank].host for w in topology.workers},
        config=ds.config if prepared.uses_ds_config else None,
        recipe=ds.name if prepared.uses_ds_config else None,
    )
