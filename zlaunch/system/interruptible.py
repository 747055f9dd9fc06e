"""Ctrl-C for who waits in a loop.

Python raises KeyboardInterrupt between two of its instructions. A signal that comes just before a
system call that waits would be seen after it only; by the loop's own descriptor it is always seen.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from zlaunch.system.loop import Loop


@contextmanager
def interruptible(loop: Loop) -> Iterator[None]:
    """Have SIGINT raise KeyboardInterrupt out of `loop.run`, where it would be raised at all."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    loop.on_signal([signal.SIGINT], _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(_signum: int) -> None:
    raise KeyboardInterrupt
