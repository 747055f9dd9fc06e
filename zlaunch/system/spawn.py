"""Starts a worker and ends it: its session, its pipe, its group, its exit.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Callable

from zlaunch.run.messages import Exit
from zlaunch.system.stdio import Stdio, take_terminal

# prctl(2); not in the standard library of Python 3.9.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

SWEEP = 2.0
"""Seconds for what is killed to be gone."""

_LINUX = sys.platform.startswith("linux")
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None


def adopt_orphans() -> None:
    """Let orphaned descendants become children of this process, so that none gets away."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Leader:
    """One worker: the leader of its own session and group, stdout and stderr on one descriptor.

    `fd` is where what it writes is read, without blocking. It is a child of ours, whoever forked
    it.
    """

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self.fd = fd

    def poll(self) -> Exit | None:
        """Return how the main process ended, without reaping it.

        Unreaped, it keeps its pid, and so its group's id, from being given to a stranger
        until `end_group` is done.
        """
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return Exit(code=found.si_status)
        return Exit(signal=found.si_status)

    def signal(self, signum: int) -> None:
        """Send `signum` to the main process; only valid until `end_group`."""
        try:
            os.kill(self.pid, signum)
        except PermissionError:  # a set-uid program of another user
            return

    def kill_group(self) -> None:
        """Send KILL to everything in the group; only valid until `end_group`."""
        self.signal_group(signal.SIGKILL)

    def signal_group(self, signum: int) -> None:
        """Send `signum` to everything in the group; only valid until `end_group`."""
        try:
            os.killpg(self.pid, signum)
        except (ProcessLookupError, PermissionError):
            # Permission: all that is left of the group is of another user (set-uid).
            return

    def end_group(self) -> None:
        """Kill what the main process left in its group, then reap it."""
        self.kill_group()
        self._reap()

    def _reap(self) -> None:
        os.waitpid(self.pid, 0)


class Process(Leader):
    """A worker that was started here."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        stdio: Stdio | None = None,
        enter: Callable[[], None] = lambda: None,
        keep: Collection[int] = (),
    ) -> None:
        """Start `argv`, and let go of its ends of `stdio`; of ours too where that fails.

        The child calls `enter` before that, and has the descriptors in `keep` too.

        Without `stdio` it reads nothing. Raises OSError as exec does.
        """
        stdio = stdio or Stdio.open("null")
        parent, terminal = os.getpid(), stdio.terminal

        def begin() -> None:
            _in_child(parent, terminal)
            enter()

        try:
            self._popen = subprocess.Popen(
                argv,
                env=dict(env),
                cwd=cwd,
                stdin=stdio.stdin,
                stdout=stdio.out,
                stderr=stdio.out,
                start_new_session=True,
                pass_fds=tuple(keep),
                # The agent has one thread, so running Python between fork and exec is safe.
                preexec_fn=begin,  # noqa: PLW1509
            )
        except BaseException:
            stdio.close_ours()
            raise
        finally:
            stdio.close_theirs()
        super().__init__(self._popen.pid, stdio.reading)

    def _reap(self) -> None:
        self._popen.wait()


def _in_child(parent: int, on_terminal: bool) -> None:
    die_with(parent)
    if on_terminal:
        take_terminal()


def die_with(parent: int, signum: int = signal.SIGKILL) -> None:
    """Have the kernel signal this process, a child of `parent`, when that one's thread dies."""
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
    if os.getppid() != parent:  # the agent died between fork and prctl
        os._exit(128 + signum)


# Orphans: descendants that left their rank's group, adopted when their parent died


def reap_orphans(others: Collection[int]) -> None:
    """Reap adopted orphans that have ended; `others` are children that somebody waits for."""
    for pid in children():
        if pid not in others:
            _reap_if_dead(pid)


def sweep(others: Collection[int] = (), deadline: float | None = None) -> list[int]:
    """Kill and reap every child but `others`; a dying one hands us its own children.

    Return those that do not die in time.
    """
    deadline = time.monotonic() + SWEEP if deadline is None else deadline
    while True:
        left = [pid for pid in children() if pid not in others]
        if not left or time.monotonic() > deadline:
            return left
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            _reap_if_dead(pid)
        time.sleep(0.005)  # the workers are gone: nothing else waits meanwhile


def children() -> list[int]:
    """Return the pids of this process's children."""
    pids: list[int] = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
    except OSError:
        return pids
    return pids


def _reap_if_dead(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
