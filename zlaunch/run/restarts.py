"""Whether a run that failed is started once more, and after which pause."""

from __future__ import annotations

from collections.abc import Iterable

from zlaunch.frozen import frozen
from zlaunch.run.messages import Exited

FINAL = 93
"""The exit code by which a script says that starting it again is of no use.

NVIDIA's ft_launcher takes the same one for that.
"""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds; each pause is twice the one before


@frozen
class Restarts:
    """What the user allows: `most` restarts of the whole run.

    An attempt that fails within `healthy_after` seconds of its start would fail again.
    """

    most: int = 0
    healthy_after: float = 30.0


def pause_before(attempt: int) -> float:
    """Seconds of rest before the attempt with this number, which is 1 for the first restart."""
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (min(attempt, 10) - 1)))


def why_not(rules: Restarts, attempt: int, ends: Iterable[Exited], lived: float) -> str | None:
    """Say why the failure of `attempt`, which lived that many seconds, is the last one.

    None where it is not. `ends` are those of its ranks: whoever says that it is final need not be
    the first that failed, since others lose their connection to it while it leaves.
    """
    if attempt >= rules.most:
        return f"--max-restarts {rules.most} allows no more"
    if any(end.exit.code == FINAL for end in ends):
        return f"exit code {FINAL} is final"
    if lived < rules.healthy_after:
        return f"it failed after {lived:.1f} s, sooner than --healthy-after {rules.healthy_after:g}"
    return None
