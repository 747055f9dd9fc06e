"""How much may be done of what comes at any rate: so much at once, and then so much a second."""

from __future__ import annotations


class Allowance:
    """A bucket that holds `burst` and gets `rate` a second."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._left = burst
        self._at: float | None = None

    def left(self, now: float) -> int:
        """How many are there at `now`, in seconds."""
        if self._at is not None:
            self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        return max(0, int(self._left))

    def take(self, count: int) -> None:
        """Take so many; what is not there is owed."""
        self._left -= count
