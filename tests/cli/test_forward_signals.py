"""--forward-signals: names with or without SIG, numbers, real-time signals; nonsense is refused."""

from __future__ import annotations

import signal

import pytest

from zlaunch.cli.forward_signals import DEFAULT, read_forward_signals
from zlaunch.errors import InputError


@pytest.mark.parametrize(
    ("text", "signums"),
    [
        (DEFAULT, (signal.SIGUSR1, signal.SIGUSR2)),
        ("SIGUSR2", (signal.SIGUSR2,)),
        ("sigwinch, usr1", (signal.SIGWINCH, signal.SIGUSR1)),
        (f"{int(signal.SIGUSR1)},USR1,SIGUSR1", (signal.SIGUSR1,)),
        ("ALRM,URG,TSTP", (signal.SIGALRM, signal.SIGURG, signal.SIGTSTP)),
        ("RTMIN", (signal.SIGRTMIN,)),
        ("SIGRTMIN+3", (signal.SIGRTMIN + 3,)),
        ("rtmax-1,RTMAX", (signal.SIGRTMAX - 1, signal.SIGRTMAX)),
        (str(signal.SIGRTMIN + 5), (signal.SIGRTMIN + 5,)),
        ("none", ()),
        (" None ", ()),
    ],
)
def test_read(text: str, signums: tuple[int, ...]) -> None:
    assert read_forward_signals(text) == signums


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("INT", "INT: SIGINT stops the run"),
        ("USR1,SIGTERM", "SIGTERM: SIGTERM stops the run"),
        ("hup", "SIGHUP stops the run"),
        ("3", "3: SIGQUIT stops the run"),
        ("KILL", "no process can catch SIGKILL"),
        ("STOP", "no process can catch SIGSTOP"),
        ("CHLD", "zlaunch needs SIGCHLD itself"),
        ("CLD", "zlaunch needs SIGCHLD itself"),
        ("PIPE", "zlaunch needs SIGPIPE itself"),
        ("IOT", "SIGABRT is how the system"),
        ("SEGV", "SIGSEGV is how the system"),
        *((text, "no such signal") for text in (
            "", ",", "USR1,", "USR3", "SIG", "SIGSIGUSR1", "_DFL", "SIG_IGN", "0", "-1", "32", "33",
            "65", "999999999999", "RTMIN-1", "RTMIN+99", "RTMAX+1", "RTMAX-99", "RTMIN+", "RTMIN+x",
            "RTMIN1", "1.0", "\u0661", "USR1 USR2", "USR1;USR2", "none,USR1",
        )),
    ],
)  # fmt: skip
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match="--forward-signals") as caught:
        read_forward_signals(text)
    assert reason in caught.value.message
