"""How long a training goes on, judged by the steps that were seen of late."""

from __future__ import annotations

from collections.abc import Sequence


def seconds_left(total: int, seen: Sequence[tuple[float, int]], now: float) -> float | None:
    """Seconds until step `total`; None where too little is known.

    `seen` holds times, in seconds of the clock of `now`, with the step reached at each, in order.
    """
    if len(seen) < 2:
        return None
    (begun, first), (last, reached) = seen[0], seen[-1]
    if reached >= total:
        return 0.0
    if reached <= first or last <= begun:
        return None
    each = (last - begun) / (reached - first)
    return max(0.0, (total - reached) * each - max(0.0, now - last))
