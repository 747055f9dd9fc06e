"""What the launcher asks of who started it, and tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zlaunch.frozen import frozen
from zlaunch.run.outcome import Outcome
from zlaunch.spec.plan import Plan

Tell = Callable[[Outcome, Mapping[int, int]], Outcome]


@frozen
class Hooks:
    """Each has a default that does nothing.

    `on_waiting`: why the run has to wait for GPUs, each time that it changes; "" once it has them.
    `on_placed`: the plan with the GPUs that were taken, where those are not the ones of before.
    `on_start`: the first worker is about to start. `on_running`: all of them have started.
    `on_trouble`: why a node was lost before the start. `on_failure`: a rank did not end well, and
    there is a moment before more is asked.
    `failed_of_its_own`: whether this rank, the first that failed, did so for no other one.
    `on_failed_attempt`: what an attempt came to, and its pids, when another one follows;
    returns it with the rank that failed of its own for the one that was seen first.
    """

    on_waiting: Callable[[str], None] = lambda _: None
    on_placed: Callable[[Plan], None] = lambda _: None
    on_start: Callable[[], None] = lambda: None
    on_running: Callable[[], None] = lambda: None
    on_trouble: Callable[[str], None] = lambda _: None
    on_failure: Callable[[], None] = lambda: None
    failed_of_its_own: Callable[[Outcome, int], bool] = lambda *_: True
    on_failed_attempt: Tell = lambda outcome, _: outcome
