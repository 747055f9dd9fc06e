"""Calls that may take as long as they like, such as a lookup of a name: waited for so long only."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import Callable, TypeVar

_Answer = TypeVar("_Answer")


def within(seconds: float, calls: Sequence[Callable[[], _Answer]]) -> list[_Answer | None]:
    """Make all calls at once, each in a thread of its own; None for those that are not back.

    Threads that are left behind do not keep the process. A call must not raise.
    """
    answers: queue.Queue[tuple[int, _Answer]] = queue.Queue()
    for number, call in enumerate(calls):
        threading.Thread(target=lambda n=number, c=call: answers.put((n, c())), daemon=True).start()
    found: list[_Answer | None] = [None] * len(calls)
    deadline = time.monotonic() + seconds
    for _ in calls:
        try:
            number, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[number] = answer
    return found
