"""A run in a job of Slurm's that goes on in the job's next start: warned in time, put back.

With --requeue it goes on where the job's time is nearly over, where the job gives way to another
one, and where a node was lost; without it only where Slurm itself starts the job again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from zlaunch.frozen import frozen
from zlaunch.launcher.forwarding import signal_name
from zlaunch.launcher.stopping import Stopping
from zlaunch.run.outcome import Outcome
from zlaunch.run.restarts import FINAL
from zlaunch.run.state import Rules, RunState
from zlaunch.spec.slurm_queue import WAITS
from zlaunch.spec.slurm_records import JobRecord
from zlaunch.system.loop import Loop
from zlaunch.system.slurm_records import SlurmRecords

# Seconds. Slurm may send its signal up to a minute early, and looks at its clock now and then.
_EARLY = 100.0
_LAST = 10.0  # what a launcher has to do once its ranks are gone
_ASKED = 10.0  # for the controller's answer: Slurm may kill a launcher in 30
_OVER = 10.0  # so near to the end TERM is Slurm's


@frozen
class Terms:
    """What was asked for at submission.

    `restarts` is how often Slurm has started the job again before. `asked`: to go on in the next
    start. `signum` comes `ahead` seconds before the end of the job's time.
    """

    job: str
    restarts: int = 0
    asked: bool = False
    signum: int | None = None
    ahead: float = 0.0


class Requeue:
    """Decides whether a run goes on. `end` is when the job's time is over, where that is known."""

    def __init__(
        self,
        terms: Terms,
        rules: Rules,
        loop: Loop,
        stopping: Stopping,
        state: Callable[[], RunState],
        say: Callable[[str], None],
        end: Callable[[], float | None],
        stop_is_asked: Callable[[], bool],
    ) -> None:
        self._terms, self._rules = terms, rules
        self._loop, self._stopping, self._state, self._say = loop, stopping, state, say
        self._end, self._stop_is_asked = end, stop_is_asked
        self._begun: float | None = None
        self._done_before = False
        self.warned = False
        self.by_slurm = False

    def begun(self) -> None:
        """Workers start."""
        self._begun = time.monotonic()

    def heard(self, signum: int) -> None:
        """Take a signal to the batch script for the warning, if it comes when that does."""
        if not self._terms.asked or signum != self._terms.signum or self.warned:
            return
        end = self._end()
        left = self._terms.ahead if end is None else end - time.time()
        if left > self._terms.ahead + _EARLY:
            return  # somebody's own
        self.warned = True
        self._done_before = any(one.exit.status == 0 for one in self._state().exits.values())
        ranks_have = max(0.0, left - min(self._rules.grace + _LAST, left / 2))
        self._say(
            f"{signal_name(signum)}: the job's time is nearly over; once the ranks have ended, "
            f"within {ranks_have:.0f} s, the run goes back into the queue"
        )
        self._stopping.leave()
        self._loop.after(ranks_have, self._time_is_up)

    def _time_is_up(self) -> None:
        self._stopping.time_is_up("the job's time is nearly over")

    def why_again(self, outcome: Outcome) -> str:
        """Say why the run goes on in the job's next start; "" where it does not."""
        if (not outcome.exit_code and not self.warned) or self._stop_is_asked():
            return ""
        now = _standing(self._terms.job)
        if _is_back(now, self._terms):
            self.by_slurm = True
            return "Slurm has put the job back into the queue"
        if not self._terms.asked or any(e.exit.code == FINAL for e in outcome.exits.values()):
            return ""
        if self.warned:
            done = self._done_before and not outcome.exit_code
            return "" if done else "the job's time is nearly over"
        if outcome.stopped_by == signal.SIGTERM:
            return self._why_stopped(now)
        if outcome.trouble is None or outcome.first_failure is not None or self._begun is None:
            return ""
        if time.monotonic() - self._begun < self._rules.restarts.healthy_after:
            return ""  # it would be so again
        return "a node was lost"

    def _why_stopped(self, now: JobRecord | None) -> str:
        if now is not None and now.preempted is not None:
            return "another job takes the nodes"
        end = self._end()
        over = end is not None and time.time() > end - _OVER
        return "the job's time is over" if over else ""


def is_put_back(terms: Terms) -> bool:
    """Whether Slurm itself starts the job again."""
    return _is_back(_standing(terms.job), terms)


def _is_back(now: JobRecord | None, terms: Terms) -> bool:
    return now is not None and (now.restarts > terms.restarts or now.state in WAITS)


def _standing(job: str) -> JobRecord | None:
    return SlurmRecords(_ASKED, longest=_ASKED).job(job)
