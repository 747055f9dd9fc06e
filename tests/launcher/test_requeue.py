"""When a run goes on in the next start of its job. A program in PATH answers for Slurm."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from zlaunch.launcher.requeue import Requeue, Terms
from zlaunch.launcher.stopping import Stopping
from zlaunch.run.lifecycle import step
from zlaunch.run.messages import Exit, Exited
from zlaunch.run.outcome import Outcome
from zlaunch.run.restarts import FINAL, Restarts
from zlaunch.run.state import Happening, Interrupted, Phase, Rules, RunState, TimeNearlyOver
from zlaunch.system.loop import Loop

USR1 = int(signal.SIGUSR1)
TERMS = Terms("12", restarts=1, asked=True, signum=USR1, ahead=0.4)
RULES = Rules(30.0, restarts=Restarts(0, healthy_after=0.0))
STOPPED = Outcome({}, stopped_by=signal.SIGTERM, attempts=1)
LOST = Outcome({}, trouble="the agent on n2 has ended", attempts=1)


class Launch:
    """A launcher's state, changed by its own rules; and a controller's answer."""

    def __init__(self, loop: Loop, folder: Path) -> None:
        self.loop, self._folder = loop, folder
        self.state = replace(RunState.begin({0: frozenset({0, 1})}, RULES), phase=Phase.RUNNING)
        self.heard: list[Happening] = []
        self.end: float | None = None
        self.stop_asked = False
        self.answer()

    def answer(self, state: str = "RUNNING", restarts: int = 1, preempted: str = "None") -> None:
        """What scontrol says of the job."""
        words = (
            "JobId=7 JobName=train.py JobState=FAILED",  # a name of the user's
            "UserId=ada(7) GroupId=ada(7) MCS_label=N/A",
            f"JobState={state} Reason=None Dependency=(null)",
            f"Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 ExitCode=0:0",
            f"PreemptEligibleTime=1796100100 PreemptTime={preempted}",
        )
        path = self._folder / "scontrol"
        path.write_text("#!/bin/sh\ncat <<'END'\n" + " ".join(words) + "\nEND\n")
        path.chmod(0o755)

    def hear(self, event: Happening) -> None:
        self.heard.append(event)
        self.state, _ = step(self.state, event, time.monotonic())

    def requeue(self, terms: Terms = TERMS, rules: Rules = RULES) -> Requeue:
        stopping = Stopping(self.hear, lambda: self.state, lambda _: None)
        return Requeue(
            terms, rules, self.loop, stopping, lambda: self.state, lambda _: None,
            lambda: self.end, lambda: self.stop_asked,
        )  # fmt: skip


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    loop = Loop()
    yield Launch(loop, tmp_path)
    loop.close()


def ended(*codes: int) -> Mapping[int, Exited]:
    return {rank: Exited(rank, Exit(code=code), 0.0) for rank, code in enumerate(codes)}


def test_a_warning_has_ranks_end_in_time_and_the_run_go_on(launch: Launch) -> None:
    requeue = launch.requeue()
    requeue.heard(USR1)
    assert launch.heard == [TimeNearlyOver()]
    launch.loop.after(0.5, launch.loop.stop)
    launch.loop.run()
    assert launch.heard == [TimeNearlyOver(), Interrupted(signal.SIGTERM)]
    assert launch.state.phase is Phase.STOPPING
    for outcome in (STOPPED, Outcome(ended(0, 0)), Outcome(ended(3, 0), ended(3)[0])):
        assert requeue.why_again(outcome) == "the job's time is nearly over"


def test_a_script_may_say_that_it_is_done(launch: Launch) -> None:
    launch.state = replace(launch.state, exits=ended(0))
    requeue = launch.requeue()
    requeue.heard(USR1)
    assert requeue.why_again(Outcome(ended(0, 0))) == ""
    requeue = Launch(launch.loop, launch._folder).requeue()
    requeue.heard(USR1)
    assert requeue.why_again(Outcome(ended(FINAL, 0), ended(FINAL)[0])) == ""


def test_a_signal_of_somebody_s_own_is_no_warning(launch: Launch) -> None:
    requeue = launch.requeue()
    requeue.heard(int(signal.SIGUSR2))
    launch.end = time.time() + 3600
    requeue.heard(USR1)
    assert (launch.heard, requeue.warned) == ([], False)
    unasked = launch.requeue(replace(TERMS, asked=False))
    launch.end = time.time() + 10
    unasked.heard(USR1)
    assert (launch.heard, unasked.why_again(STOPPED)) == ([], "")


def test_term_is_a_wish_unless_slurm_has_a_reason(launch: Launch) -> None:
    requeue = launch.requeue()
    assert requeue.why_again(STOPPED) == ""
    launch.answer(preempted="1796100108")
    assert requeue.why_again(STOPPED) == "another job takes the nodes"
    launch.answer()
    launch.end = time.time() + 1
    assert requeue.why_again(STOPPED) == "the job's time is over"
    launch.stop_asked = True
    assert requeue.why_again(STOPPED) == ""


def test_what_slurm_starts_again_goes_on_whether_it_was_asked_for_or_not(launch: Launch) -> None:
    requeue = launch.requeue(replace(TERMS, asked=False))
    assert requeue.why_again(LOST) == ""
    for answer in (("COMPLETING", 2), ("PENDING", 1)):
        launch.answer(*answer)
        assert requeue.why_again(LOST).startswith("Slurm has put the job back")
        assert requeue.by_slurm
    assert requeue.why_again(Outcome(ended(0, 0))) == ""


def test_a_lost_node_is_left_unless_it_was_lost_at_once(launch: Launch) -> None:
    requeue = launch.requeue()
    assert requeue.why_again(LOST) == ""  # no rank had been started
    requeue.begun()
    assert requeue.why_again(LOST) == "a node was lost"
    assert requeue.why_again(Outcome(ended(7), ended(7)[0], trouble="x")) == ""
    assert requeue.why_again(Outcome(ended(7), ended(7)[0])) == ""
    rules = replace(RULES, restarts=Restarts(0, healthy_after=60.0))
    hasty = launch.requeue(rules=rules)
    hasty.begun()
    assert hasty.why_again(LOST) == ""


def test_where_slurm_does_not_answer_the_run_is_judged_without(launch: Launch) -> None:
    (launch._folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    requeue = launch.requeue()
    assert requeue.why_again(STOPPED) == ""
    requeue.heard(USR1)
    assert requeue.why_again(STOPPED) == "the job's time is nearly over"
