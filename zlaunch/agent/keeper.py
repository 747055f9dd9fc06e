"""Stands behind the agent of a node that is reached over a network, and outlives it.

An agent can be killed, or stopped with SIGSTOP, and then nobody on its host knows of the
launcher's end any more: what its workers started in sessions of their own would stay. The
keeper is the agent's parent and waits in the kernel, for the agent's end or for that of the
link. It adopts and ends what a dead agent leaves, and wakes a stopped one to see that the link
is closed.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from types import FrameType

from zlaunch.system.spawn import adopt_orphans, die_with, sweep

# All that an agent may have a use for; not what tells of a fault of our own, of our children, or
# of a terminal.
_NOT_FORWARDED = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGCONT),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT),
    *(signal.SIGSYS, signal.SIGTRAP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
}
_WAKE_AGAIN = 5.0  # seconds; whoever stopped it may do so again
_LATE = 15.0  # seconds beyond the grace; an agent whose link is closed needs less
_LARGEST_WILL = 4096  # bytes, which a pipe takes at once


class Will:
    """What an agent leaves to its keeper in a pipe, which the keeper reads when it is needed."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, mark: Collection[str], grace: float) -> None:
        """Say what marks all that is to be ended, and how long the agent itself may take."""
        with suppress(OSError):  # the keeper was killed, which the agent will hear of
            os.write(self._fd, "\0".join([repr(grace), *mark]).encode()[:_LARGEST_WILL])


def leave_keeper_behind(link: int = 0) -> Will | None:
    """Fork, and return in the child, which is to be the agent; this process is its keeper.

    `link` is the descriptor that the agent reads. The keeper ends with the agent's exit code.
    Where there is no pidfd (Linux before 5.3, macOS) the agent goes without a keeper.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    adopt_orphans()
    keeper = os.getpid()
    will, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        os._exit(_wait(pid, link, will))
    os.close(will)
    # A group of its own: what a terminal sends comes by way of the keeper, and once.
    os.setpgid(0, 0)
    # Should the keeper be killed, the agent ends its workers. Not HUP: under nohup it is ignored.
    die_with(keeper, signal.SIGTERM)
    return Will(writing)


def _wait(pid: int, link: int, will: int) -> int:
    """Wait for the agent, and return its exit code once nothing of it is left."""
    agent = os.pidfd_open(pid)
    _forward_to(agent)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):  # else the launcher would not hear the end of the agent
        os.dup2(null, fd)
    poll = select.poll()
    poll.register(agent, select.POLLIN)
    poll.register(link, select.POLLRDHUP)  # its end alone; what comes in is for the agent
    gone = agent in _ready(poll, None)
    grace, mark = _read(will)
    if not gone:  # then it is the link that has ended
        poll.unregister(link)
        gone = _see_out(pid, agent, poll, grace)
    os.dup2(null, link)
    status = os.waitpid(pid, 0)[1] if gone else signal.SIGKILL
    if os.WIFEXITED(status):  # it has seen to the rest itself
        sweep()
        return os.WEXITSTATUS(status)
    from zlaunch.system.remains import end_of_dead_agent  # most keepers have no use for it

    end_of_dead_agent(mark)
    return 128 + os.WTERMSIG(status)


def _forward_to(agent: int) -> None:
    def forward(signum: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(agent, signum)

    for signum in signal.valid_signals() - _NOT_FORWARDED:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, forward)


def _see_out(pid: int, agent: int, poll: select.poll, grace: float) -> bool:
    """Wake an agent whose link is closed, kill it where that does not help; say if it is gone."""
    end = time.monotonic() + grace + _LATE
    while time.monotonic() < end:
        os.kill(pid, signal.SIGCONT)
        left = max(0.0, end - time.monotonic())
        if agent in _ready(poll, min(left, _WAKE_AGAIN) * 1000):
            return True
    os.kill(pid, signal.SIGKILL)
    return agent in _ready(poll, _WAKE_AGAIN * 1000)


def _read(will: int) -> tuple[float, list[str]]:
    """The grace and the mark; no mark where nothing was started."""
    if not select.select([will], [], [], 0)[0]:
        return 0.0, []
    grace, *mark = os.read(will, _LARGEST_WILL).decode().split("\0")
    return float(grace or 0), mark


def _ready(poll: select.poll, milliseconds: float | None) -> set[int]:
    return {fd for fd, _ in poll.poll(milliseconds)}
