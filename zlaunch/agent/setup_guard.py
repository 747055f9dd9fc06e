"""Stands over a host's login shell while --setup runs there, and then over the agent.

The shell cannot watch the link, so this does: when it closes before the command is through,
whatever that has started is killed; when the agent has ended, what the command left in the
background is. Run by any python3 that the host has before it is set up, so Python 3.4 is enough.
"""

import ctypes
import os
import select
import signal
import sys
import time

_LINK, _EVENTS, _THROUGH = 8, 9, 7  # descriptors, as in backends/remote.py
_POLLRDHUP = 0x2000  # in `select` from Python 3.7 on
_SWEEP = 2.0  # seconds for what is left to be gone after KILL


def guard(argv: "list[str]") -> int:
    """Run `argv`, and end with its exit code once nothing of it is left."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    through, tell = os.pipe()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # before there is a child that may end at once
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        os.setsid()
        os.dup2(tell, _THROUGH)
        os.environ["ZLAUNCH_GUARDED"] = "1"
        os.execvp(argv[0], argv)  # noqa: S606
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda received, _frame: os.kill(child, received))
    for fd in (tell, _EVENTS, 1):
        os.close(fd)
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    poll.register(through, select.POLLIN)
    poll.register(_LINK, _POLLRDHUP)
    setting_up = True
    while True:
        for fd, _ in poll.poll():
            if fd == woken:
                os.read(woken, 4096)
                status = _ended(child)
                if status is not None:
                    _sweep()
                    return status
            elif fd == through:
                setting_up = not os.read(through, 1)
                poll.unregister(through)
            else:
                poll.unregister(_LINK)
                if setting_up:
                    os.killpg(child, signal.SIGKILL)
                    _sweep()
                    return 1


def _ended(child: int) -> "int | None":
    """Reap whatever has ended; the exit code of the child, once that is among it."""
    found = None  # type: int | None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1 if found is None else found
        if pid == 0:
            return found
        if pid == child:
            found = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _sweep() -> None:
    """Kill every child; a dying one hands us its own."""
    end = time.time() + _SWEEP
    while time.time() < end:
        try:
            with open("/proc/self/task/%d/children" % os.getpid()) as file:
                left = [int(pid) for pid in file.read().split()]
        except OSError:
            return
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                continue
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1:]))
