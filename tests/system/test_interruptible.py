"""Ctrl-C for who waits in a loop."""

from __future__ import annotations

import os
import signal

import pytest

from zlaunch.system.interruptible import interruptible
from zlaunch.system.loop import Loop


def interrupted_before_it_runs(loop: Loop) -> None:
    with interruptible(loop):
        os.kill(os.getpid(), signal.SIGINT)  # is noted, and raises nothing here
        loop.run()


def test_a_signal_that_came_before_the_wait_ends_it() -> None:
    """Without, there would be nothing more to wake the loop for a minute."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loop = Loop()
    try:
        loop.after(60.0, loop.stop)
        with pytest.raises(KeyboardInterrupt):
            interrupted_before_it_runs(loop)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        loop.close()
        signal.signal(signal.SIGINT, before)


def test_who_ignores_it_is_not_interrupted() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop = Loop()
    try:
        loop.after(0.0, loop.stop)
        with interruptible(loop):
            os.kill(os.getpid(), signal.SIGINT)
            loop.run()
    finally:
        loop.close()
        signal.signal(signal.SIGINT, before)
