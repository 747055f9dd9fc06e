"""One selector for descriptors, timers and signals. Everything waits here; nothing polls.

Used by launcher and agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterable
from typing import Callable

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

Callback = Callable[[], None]

_LONGEST_WAIT = 86400.0  # seconds


class Timer:
    """A callback at a time of the monotonic clock; `cancel` makes it void."""

    def __init__(self, callback: Callback) -> None:
        self._callback: Callback | None = callback

    def cancel(self) -> None:
        """Do not call back."""
        self._callback = None

    @property
    def cancelled(self) -> bool:
        """Whether there is nothing to call back any more."""
        return self._callback is None

    def fire(self) -> None:
        """Call back once, unless cancelled."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


def ignore_stop_signals() -> None:
    """From here on nothing but KILL ends this process early: all is done, and it is leaving.

    A Python that leaves gives signals their default meaning back, and would die of one more Ctrl-C
    with another exit code than that of the run.
    """
    for signum in STOP_SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


class Loop:
    """Calls back on readable and writable descriptors, due timers and signals."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, dict[int, Callback]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._on_signal: dict[int, Callable[[int], None]] = {}
        self._arrived: set[int] = set()
        self._wakeup: tuple[socket.socket, socket.socket] | None = None
        self._stopped = False

    # Descriptors

    def watch(self, fd: int, event: int, callback: Callback) -> None:
        """Call back each time `fd` is ready for `event` (READ or WRITE)."""
        self._watched.setdefault(fd, {})[event] = callback
        self._register(fd)

    def unwatch(self, fd: int, event: int) -> None:
        """Stop calling back for `event` of `fd`; does nothing where it is not watched."""
        if self._watched.get(fd, {}).pop(event, None) is not None:
            self._register(fd)

    def _register(self, fd: int) -> None:
        events = 0
        for event in self._watched[fd]:
            events |= event
        known = fd in self._selector.get_map()
        if not events:
            del self._watched[fd]
            if known:
                self._selector.unregister(fd)
        elif known:
            self._selector.modify(fd, events)
        else:
            self._selector.register(fd, events)

    # Time

    def at(self, when: float, callback: Callback) -> Timer:
        """Call back once `time.monotonic()` has reached `when`."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def after(self, seconds: float, callback: Callback) -> Timer:
        """Call back once, `seconds` from now."""
        return self.at(time.monotonic() + seconds, callback)

    # Signals

    def on_signal(self, signums: Iterable[int], callback: Callable[[int], None]) -> None:
        """Call back, from the loop, with the number of each of `signums` that arrives.

        None is blocked any more: whoever started us may have left them so, for a purpose of his.
        """
        if self._wakeup is None:
            self._wakeup = socket.socketpair()
            for end in self._wakeup:
                end.setblocking(False)
            signal.set_wakeup_fd(self._wakeup[1].fileno(), warn_on_full_buffer=False)
            self.watch(self._wakeup[0].fileno(), READ, self._read_signals)
        for signum in signums:
            self._on_signal[signum] = callback
            signal.signal(signum, self._note_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._on_signal)

    def on_stop_signals(self, callback: Callable[[int], None]) -> None:
        """Call back with each signal that asks a process to end.

        One that is ignored already stays so: `nohup zlaunch` lives on after a hang-up.
        """
        heard = [s for s in STOP_SIGNALS if signal.getsignal(s) is not signal.SIG_IGN]
        self.on_signal(heard, callback)

    def _note_signal(self, signum: int, _frame: object) -> None:
        # The descriptor only wakes the loop: it may be full, and then forgets which signal.
        self._arrived.add(signum)

    def _read_signals(self) -> None:
        assert self._wakeup is not None
        self._wakeup[0].recv(4096)
        while self._arrived:
            signum = self._arrived.pop()
            self._on_signal[signum](signum)

    # Running

    def stop(self) -> None:
        """Let `run` return once the callbacks at hand are done."""
        self._stopped = True

    def run(self) -> None:
        """Wait and call back until `stop`, or until there is nothing left to wait for."""
        while not self._stopped and (self._watched or self._next_due() is not None):
            for key, events in self._selector.select(self._timeout()):
                for event in (READ, WRITE):
                    # A callback before this one may have unwatched the descriptor.
                    callback = self._watched.get(key.fd, {}).get(event) if events & event else None
                    if callback is not None:
                        callback()
            self._fire_due()

    def _timeout(self) -> float | None:
        due = self._next_due()
        if due is None:
            return None
        # epoll counts milliseconds in 32 bits, which a grace of weeks would exceed.
        return min(max(0.0, due - time.monotonic()), _LONGEST_WAIT)

    def _next_due(self) -> float | None:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _fire_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2].fire()

    def close(self) -> None:
        """Give the descriptors back; signal handlers stay as they are."""
        if self._wakeup is not None:
            signal.set_wakeup_fd(-1)
            for end in self._wakeup:
                end.close()
        self._selector.close()


def read_chunk(fd: int, size: int) -> bytes | None:
    """Read up to `size` bytes from a non-blocking `fd`; b"" at the end, None if there is nothing.

    A terminal or socket whose other side has gone reads as the end.
    """
    try:
        return os.read(fd, size)
    except BlockingIOError:
        return None
    except OSError:
        return b""
