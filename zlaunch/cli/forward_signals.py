"""Reads --forward-signals: which signals are the ranks' business and end nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

from zlaunch.errors import InputError
from zlaunch.launcher.forwarding import NOBODY, signal_name
from zlaunch.run.orders import STACK_SIGNALS
from zlaunch.system.loop import STOP_SIGNALS

DEFAULT = "USR1,USR2"

_REFUSED: dict[int, str] = {
    **dict.fromkeys(STOP_SIGNALS, "{} stops the run"),
    **dict.fromkeys((signal.SIGKILL, signal.SIGSTOP), "no process can catch {}"),
    **dict.fromkeys((signal.SIGCHLD, signal.SIGPIPE, signal.SIGCONT), "zlaunch needs {} itself"),
    **dict.fromkeys(
        (
            *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT),
            *(signal.SIGSYS, signal.SIGTRAP),
        ),
        "{} is how the system tells a process of its own fault",
    ),
    **dict.fromkeys(STACK_SIGNALS, "zlaunch takes stacks by {}"),
}
_HINT = "names or numbers, such as USR1,USR2,WINCH or RTMIN+1; none for none"


def read_forward_signals(text: str) -> tuple[int, ...]:
    """Return the numbers of the signals that `text` names.

    Raises InputError.
    """
    if text.strip().lower() == "none":
        return ()
    return tuple(dict.fromkeys(_number(word.strip()) for word in text.split(",")))


def hold_until_started(signums: Iterable[int]) -> None:
    """Let these not end us before there are ranks; the launcher's handlers come later."""
    for signum in signums:
        signal.signal(signum, lambda received, _frame: _say_nobody(received))


def _say_nobody(signum: int) -> None:
    with suppress(OSError):
        os.write(2, f"zlaunch: {signal_name(signum)}: {NOBODY}\n".encode())


def _number(word: str) -> int:
    signum = _read(word.upper())
    if signum is None:
        raise InputError(f"--forward-signals {word or repr(word)}: no such signal", hint=_HINT)
    reason = _REFUSED.get(signum)
    if reason is not None:
        words = reason.format(signal_name(signum))
        raise InputError(f"--forward-signals {word}: {words}", hint="leave it out")
    return signum


def signal_number(name: str) -> int | None:
    """Return the number of a signal that is named as in --forward-signals; None for no such."""
    return _read(name.strip().upper())


def _read(word: str) -> int | None:
    """A number, a name with or without SIG, or one counted from RTMIN or RTMAX."""
    name = word.removeprefix("SIG")
    if word.isascii() and word.isdigit():
        return _valid(int(word))
    for edge, sign in (("RTMIN", 1), ("RTMAX", -1)):
        rest = name.removeprefix(edge)
        mark = "+" if sign > 0 else "-"
        if rest != name and rest[:1] == mark and rest[1:].isascii() and rest[1:].isdigit():
            number = _valid(getattr(signal, f"SIG{edge}") + sign * int(rest[1:]))
            return number if number is not None and number >= signal.SIGRTMIN else None
    found = getattr(signal, f"SIG{name}", None)
    return int(found) if isinstance(found, signal.Signals) else None


def _valid(number: int) -> int | None:
    return number if number in signal.valid_signals() else None
