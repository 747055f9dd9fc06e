"""Stands behind the agent of a host that was reached over a network, and outlives it.

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
from typing import Callable

from zlaunch.system.spawn import adopt_orphans, die_with, sweep

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_WAKE_AGAIN = 5000  # milliseconds; whoever stopped it may do so again
_LINK = 0


def keep(serve: Callable[[], None]) -> None:
    """Run `serve` in a child, which is the agent; return in the child alone.

    Where the kernel has no pidfd (before 5.3) the agent has no keeper.
    """
    if not hasattr(os, "pidfd_open"):
        serve()
        return
    adopt_orphans()
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        os._exit(_wait(pid))
    # Should the keeper be killed, the agent stops its workers as for any stop signal.
    die_with(keeper, signal.SIGHUP)
    serve()


def _wait(pid: int) -> int:
    """Wait for the agent, and return its exit code once nothing of it is left."""
    for signum in _FORWARDED:
        signal.signal(signum, lambda received, _frame: os.kill(pid, received))
    agent = os.pidfd_open(pid)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):  # else the launcher would not hear the end of the agent
        os.dup2(null, fd)
    poll = select.poll()
    poll.register(agent, select.POLLIN)
    poll.register(_LINK, select.POLLRDHUP)  # its end alone; what comes in is for the agent
    if agent not in _ready(poll, None):  # then it is the link that has ended
        poll.unregister(_LINK)
        os.kill(pid, signal.SIGCONT)
        while agent not in _ready(poll, _WAKE_AGAIN):
            os.kill(pid, signal.SIGCONT)
    _, status = os.waitpid(pid, 0)
    sweep()
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _ready(poll: select.poll, timeout: int | None) -> set[int]:
    return {fd for fd, _ in poll.poll(timeout)}
