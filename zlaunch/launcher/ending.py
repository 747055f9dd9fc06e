"""Tells how an attempt ended: the first real failure last, with its own words and its cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from zlaunch.frozen import frozen
from zlaunch.insight.evidence import Cause, Diagnosis, Evidence, RankEnd
from zlaunch.launcher import report
from zlaunch.launcher.output import Output
from zlaunch.run.job_end import OUT_OF_MEMORY, JobEnd
from zlaunch.run.messages import Exited
from zlaunch.run.outcome import Outcome
from zlaunch.system.console import Console


@frozen
class Background:
    """What a failure is judged by, beside what ranks print.

    `places` says where each rank is, such as `h1, GPU 3`, or ""; `config` is the ds_config.
    """

    places: Mapping[int, str]
    hosts: Mapping[int, str] = field(default_factory=dict)
    config: Mapping[str, object] | None = None
    recipe: str | None = None


class Ending:
    """Judges failures by what ranks printed, and tells."""

    def __init__(self, console: Console, output: Output, background: Background) -> None:
        self._console = console
        self._output = output
        self._background = background
        self.cause: str | None = None  # the title of the first one, once told

    def move(self, background: Background) -> None:
        """Ranks are at other places than was thought before they were started."""
        self._background = background

    def tell(self, outcome: Outcome, pids: Mapping[int, int]) -> Outcome:
        """Say it: the loss scale's verdict, the others in one line, the failure and its cause.

        Returns the outcome with the first real failure for the one that was seen first.
        """
        verdict = report.loss_scale(self._output.loss_scale())
        if verdict is not None:
            self._console.say(*verdict)
        if outcome.first_failure is None:
            self._say_others(outcome, None, None)
            if outcome.limit is not None or outcome.stopped_by is not None:
                self._say_stuck(outcome, pids)
            if outcome.job_end is not None:
                self._say_job_end(outcome.job_end, ())
            return outcome
        diagnosis = self._diagnose(outcome)
        culprit = _culprit(outcome, diagnosis)
        self._say_others(outcome, culprit, diagnosis)
        self._say_failure(culprit, pids)
        self.cause = next((cause.title for cause in diagnosis.causes), None)
        if outcome.job_end is not None:
            self._say_job_end(outcome.job_end, diagnosis.causes)
        else:
            for cause in diagnosis.causes[:1]:
                self._say_cause(cause, diagnosis)
        # One that was told to end while it failed has no exit of its own.
        own = not (culprit.told and culprit.exit.signal)
        return replace(outcome, first_failure=culprit) if own else outcome

    def _say_others(
        self, outcome: Outcome, culprit: Exited | None, diagnosis: Diagnosis | None
    ) -> None:
        rest = report.others(outcome, culprit, diagnosis)
        if rest is not None:
            self._console.say(rest)

    def _say_failure(self, culprit: Exited, pids: Mapping[int, int]) -> None:
        rank, place = culprit.rank, self._background.places.get(culprit.rank, "")
        words = self._output.last_words(rank)
        told = report.failure(culprit, pids.get(rank), place, quoted=bool(words))
        self._console.say(told, "error")
        self._console.quote(rank, words)

    def _say_stuck(self, outcome: Outcome, pids: Mapping[int, int]) -> None:
        """What made others wait: a rank with an error of its own whose process did not end.

        Python waits at its exit for child processes and threads.
        """
        diagnosis = self._diagnose(outcome)
        raised = {rank for one in diagnosis.tracebacks for rank in one.ranks}
        for rank in diagnosis.culprits:
            end = outcome.exits.get(rank)
            if rank in raised and end is not None and end.told and end.exit.signal:
                words, place = self._output.last_words(rank), self._background.places.get(rank, "")
                self._console.say(report.stuck(rank, pids.get(rank), place), "error")
                self._console.quote(rank, words)
                return

    def _say_cause(self, cause: Cause, diagnosis: Diagnosis) -> None:
        printed = any(cause.title in "\n".join(self._output.held_words(r)) for r in cause.ranks)
        if cause.code == "exit-code" or (cause.code == "exception" and printed):
            return  # its last lines and its traceback say as much
        lines = _in_lines(cause)
        if cause.code == "exception":  # it is in the error file alone
            lines += [f"  {line}" for one in diagnosis.tracebacks[:1] for line in one.lines]
        self._console.say("\n".join(lines), "error")

    def _say_job_end(self, end: JobEnd, causes: Iterable[Cause]) -> None:
        """What Slurm did to the job, together with what ranks' own ends tell."""
        from zlaunch.insight.job_causes import of_evidence

        cause = of_evidence(causes, end)[0]
        self.cause = cause.title
        if end.code != OUT_OF_MEMORY:  # Slurm's own words came as they were heard
            cause = replace(cause, details=())
        self._console.say("\n".join(_in_lines(cause)), "error")

    def get_ready(self) -> None:
        """Import what judging takes; a run that goes well does not pay for it."""
        import zlaunch.insight.first_look  # noqa: F401

    def failed_of_its_own(self, outcome: Outcome, rank: int) -> bool:
        """Say at a first look whether the rank failed for no other one, by what it printed."""
        from zlaunch.insight.first_look import failed_of_its_own

        return failed_of_its_own(self._evidence(outcome), rank)

    def _diagnose(self, outcome: Outcome) -> Diagnosis:
        from zlaunch.insight.diagnosis import diagnose

        return diagnose(self._evidence(outcome))

    def _evidence(self, outcome: Outcome) -> Evidence:
        world, background = self._output.ranks, self._background
        words = {rank: self._output.held_words(rank) for rank in world}
        ends = {rank: self._rank_end(end) for rank, end in outcome.exits.items()}
        return Evidence(
            ends, words, len(world), background.config, background.recipe, background.hosts
        )

    def _rank_end(self, end: Exited) -> RankEnd:
        how, place = end.exit, self._background.places.get(end.rank, "")
        return RankEnd(
            end.rank, how.code, how.signal, end.at, end.told, end.signs, end.error, place
        )


def _in_lines(cause: Cause) -> list[str]:
    lines = [f"cause: {cause.title}", *(f"  {detail}" for detail in cause.details)]
    return [*lines, *(f"  - {mend}" for mend in cause.mends)]


def _culprit(outcome: Outcome, diagnosis: Diagnosis) -> Exited:
    """The rank that failed of its own: what it printed tells more than whose end came first."""
    assert outcome.first_failure is not None
    raised = {rank for one in diagnosis.tracebacks for rank in one.ranks}
    for rank in diagnosis.culprits:
        end = outcome.exits.get(rank)
        # One that others waited for in vain, and that we ended, has no failure to show.
        stopped = end is not None and end.told and end.exit.signal and rank not in raised
        if end is not None and end.exit.status and not stopped:
            return end
    return outcome.first_failure
