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

from zlaunch.system.spawn import adopt_orphans, die_with, sweep

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_WAKE_AGAIN = 5000  # milliseconds; whoever stopped it may do so again


def leave_keeper_behind(link: int = 0) -> None:
    """Fork, and return in the child, which is to be the agent; this process is its keeper.

    `link` is the descriptor that the agent reads. The keeper ends with the agent's exit code.
    Where there is no pidfd (Linux before 5.3, macOS) the agent goes without a keeper.
    """
    if not hasattr(os, "pidfd_open"):
        return
    adopt_orphans()
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        os._exit(_wait(pid, link))
    # A group of its own: what a terminal sends comes by way of the keeper, and once.
    os.setpgid(0, 0)
    # Should the keeper be killed, the agent stops its workers as for any stop signal.
    die_with(keeper, signal.SIGHUP)


def _wait(pid: int, link: int) -> int:
    """Wait for the agent, and return its exit code once nothing of it is left."""
    for signum in _FORWARDED:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, lambda received, _frame: os.kill(pid, received))
    agent = os.pidfd_open(pid)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):  # else the launcher would not hear the end of the agent
        os.dup2(null, fd)
    poll = select.poll()
    poll.register(agent, select.POLLIN)
    poll.register(link, select.POLLRDHUP)  # its end alone; what comes in is for the agent
    if agent not in _ready(poll, None):  # then it is the link that has ended
        poll.unregister(link)
        os.kill(pid, signal.SIGCONT)
        while agent not in _ready(poll, _WAKE_AGAIN):
            os.kill(pid, signal.SIGCONT)
    os.dup2(null, link)
    _, status = os.waitpid(pid, 0)
    sweep()
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _ready(poll: select.poll, timeout: int | None) -> set[int]:
    return {fd for fd, _ in poll.poll(timeout)}
