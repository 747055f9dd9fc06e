"""What is remembered of a run's loss scale, and what is told about it: plain frozen data.

The state has the size of the world, however long the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from zlaunch.frozen import frozen

IN_A_ROW = 5
"""So many skipped steps with no good step seen in between are worth a loud warning."""

STUCK = 3
"""So many reductions of a scale to itself show a minimum that nobody told us."""

WINDOW = 100
"""The share of skipped steps is taken over the last one to two windows of steps."""

Mark = Literal["show", "mark", "fold"]
Topic = Literal["search", "streak", "minimum", "non-finite", "silent"]
Verdict = Literal["settled", "searching", "unstable", "at minimum", "non-finite gradients"]


@frozen
class Notice:
    """A sentence for the console."""

    level: Literal["info", "warning"]
    text: str


@frozen
class Reading:
    """What to do with the line that was observed, and what to say besides."""

    mark: Mark
    notices: tuple[Notice, ...] = ()


@frozen
class Count:
    """The engine's own count at a step: how many of the steps so far were skipped."""

    step: int = 0
    skipped: int = 0


@frozen
class LossScaleState:
    """All that is remembered of a run; the first two fields come from the ds_config."""

    min_scale: float = 1.0
    initial_scale: float | None = None
    first_scale: float | None = None
    last_scale: float | None = None
    hysteresis_left: int | None = None
    stuck: int = 0  # reductions in a row that left the scale as it was
    scaled: bool = True  # False once a line shows that no dynamic scale is in use
    gave_up: bool = False  # DeepSpeed raised at the minimum
    settled: bool = False  # a good step was seen
    skipped: int = 0
    streak: int = 0  # skipped in a row with no good step seen in between
    worst_streak: int = 0  # the longest since the scale settled
    said: frozenset[Topic] = frozenset()
    told: Mapping[int, int] = field(default_factory=dict)  # by rank: the skipped steps it reported
    settled_after: int = 0  # how many had been reported when the scale settled
    last_iteration: int | None = None
    awaiting: bool = False  # an `iteration` overflow whose second record is still to come
    steps: int | None = None
    report: Count | None = None
    anchor: Count | None = None  # where the share of skipped steps is measured from
    next_anchor: Count | None = None

    @property
    def most_told(self) -> int:
        """The skipped steps that the rank has reported which has reported most."""
        return max(self.told.values(), default=0)

    def leads(self, rank: int) -> bool:
        """Whether no rank has reported more skipped steps than this one."""
        return self.told.get(rank, 0) == self.most_told

    @property
    def at_minimum(self) -> bool:
        """Whether the scale, as last seen, cannot be reduced any further."""
        low = self.last_scale is not None and self.last_scale <= self.min_scale
        return self.scaled and (self.gave_up or low or self.stuck >= STUCK)

    @property
    def recent_share(self) -> float:
        """The share of skipped steps lately; 0.0 while there are too few to tell."""
        if self.anchor is None or self.report is None:
            return 0.0
        steps = self.report.step - self.anchor.step
        skipped = self.report.skipped - self.anchor.skipped
        return skipped / steps if steps >= WINDOW // 2 else 0.0

    def scales(self, before: float | None, after: float | None) -> LossScaleState:
        """Note a scale that was in use and, where known, the one that follows it."""
        if before is None and after is None:
            return self
        stuck = self.stuck if after is None else self.stuck + 1 if before == after else 0
        return replace(
            self,
            first_scale=before if self.first_scale is None else self.first_scale,
            last_scale=before if after is None else after,
            stuck=stuck,
        )

    def lengthened(self, steps: int) -> LossScaleState:
        """Add to the steps skipped in a row."""
        streak = self.streak + steps
        worst = max(self.worst_streak, streak) if self.settled else 0
        return replace(self, streak=streak, worst_streak=worst)

    def reached(self, step: int | None) -> LossScaleState:
        """Note the last step seen."""
        return self if step is None else replace(self, steps=max(step, self.steps or 0))

    def saying(self, *topics: Topic) -> LossScaleState:
        """Note what has been said."""
        return replace(self, said=self.said | frozenset(topics))


@frozen
class Summary:
    """The loss scale's part of the summary at the end of a run."""

    skipped: int
    steps: int | None
    first_scale: float | None
    last_scale: float | None
    at_minimum: bool
    verdict: Verdict
    text: str
