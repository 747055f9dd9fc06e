"""Notices that no rank makes progress any more.

Silence is seen without asking anybody. Only once it has lasted for half of the limit are the ranks
looked at, all together and a few times until the limit, and then often: `insight/hang.py` says
what is progress. A run that prints now and then is never looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from zlaunch.insight.hang import Seen, progressed
from zlaunch.insight.stacks import parse_stacks
from zlaunch.launcher.stack_call import How, OnAnswers
from zlaunch.run.messages import Stacks
from zlaunch.system.loop import Loop

_SHARE = 10  # of the limit lie between two looks
_SOONEST = 1.0  # seconds between two looks

Look = Callable[[How, OnAnswers], None]


class HangWatch:
    """Calls `on_hang` with the seconds for which no rank has made progress, once a hang.

    `look` asks where the ranks are; `heard` says when a rank wrote or ended last (the clock of the
    loop). It watches on once what `on_hang` got is called.
    """

    def __init__(
        self,
        loop: Loop,
        limit: float,
        look: Look,
        heard: Callable[[], float],
        on_hang: Callable[[float, Callable[[], None]], None],
        on_progress: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._look = look
        self._heard = heard
        self._on_hang = on_hang
        self._on_progress = on_progress
        self._since = 0.0  # when progress was seen last
        self._before: dict[int, Seen] = {}
        self._looks = 0  # since then
        self._hanging = False
        self._over = False

    def begin(self) -> None:
        """Watch from now on."""
        self._restart(time.monotonic())

    def end(self) -> None:
        """Watch no more."""
        self._over = True

    def _restart(self, since: float) -> None:
        """There was progress at `since`: half of the limit may pass before the next look."""
        if self._hanging:
            self._hanging = False
            self._on_progress()
        self._since, self._before, self._looks = since, {}, 0
        self._loop.at(since + self._limit / 2, self._check)

    def _check(self) -> None:
        if self._over:
            return
        if self._heard() > self._since:
            self._restart(self._heard())
            return
        last = time.monotonic() >= self._since + self._limit and self._looks and not self._hanging
        self._look("often" if last else "once", self._hangs if last else self._goes_on)

    def _goes_on(self, answers: Mapping[int, Stacks]) -> None:
        now = time.monotonic()
        if not self._over and not self._saw_progress(answers, now):
            self._go_on(now)

    def _hangs(self, answers: Mapping[int, Stacks]) -> None:
        now = time.monotonic()
        if not self._over and not self._saw_progress(answers, now):
            self._hanging = True
            self._on_hang(now - self._since, self._roll_called)

    def _roll_called(self) -> None:
        """Ranks have been at work for our sake: look anew."""
        self._before = {}
        self._go_on(time.monotonic())

    def _saw_progress(self, answers: Mapping[int, Stacks], now: float) -> bool:
        """Compare with the look before; where there was progress, the time begins anew."""
        seen = {rank: _seen(one) for rank, one in answers.items()}
        before, self._before = self._before, seen
        self._looks += 1
        if self._heard() > self._since:
            self._restart(self._heard())
        elif any(progressed(before[rank], seen[rank]) for rank in before.keys() & seen.keys()):
            self._restart(now)
        else:
            return False
        return True

    def _go_on(self, now: float) -> None:
        step = max(_SOONEST, self._limit / _SHARE)
        end = self._since + self._limit
        # The last look is right at the limit.
        due = now + step if self._hanging or not now < end < now + step else end
        self._loop.at(max(due, now + 0.5), self._check)


def _seen(stacks: Stacks) -> Seen:
    dumps = tuple(parse_stacks(text, stacks.main) for text in stacks.texts)
    return Seen(stacks.at, dumps, stacks.usage)
