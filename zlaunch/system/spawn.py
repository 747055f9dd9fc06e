"""Starts a worker and ends it: its session, its pipe, its group, its exit.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence

from zlaunch.run.messages import Exit

# prctl(2) and fcntl(2); not in the standard library of Python 3.9.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_F_SETPIPE_SZ, _F_GETPIPE_SZ = 1031, 1032
# Bytes. The system lets each user have 64 MiB in pipes before it makes new ones tiny, so what
# a rank takes has to leave room for hundreds of them.
_PIPE_SIZE = 256 << 10

_SWEEP = 2.0  # seconds for orphans to be gone after KILL

_LINUX = sys.platform.startswith("linux")
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None


def adopt_orphans() -> None:
    """Let orphaned descendants become children of this process, so that none gets away."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process:
    """One worker: the leader of its own session and group, stdout and stderr on one pipe.

    One pipe for both keeps their order exactly as the worker wrote them. `fd` is the pipe's
    non-blocking reading end.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        """Start `argv`.

        Raises OSError as exec does.
        """
        parent = os.getpid()
        self.fd, writing = os.pipe()
        try:
            enlarge_pipe(writing)
            self._popen = subprocess.Popen(
                argv,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                # The agent has one thread, so running Python between fork and exec is safe.
                preexec_fn=lambda: die_with(parent),  # noqa: PLW1509
            )
        except BaseException:
            os.close(self.fd)
            raise
        finally:
            os.close(writing)
        os.set_blocking(self.fd, False)
        self.pid = self._popen.pid

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
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # Permission: all that is left of the group is of another user (set-uid).
            return

    def end_group(self) -> None:
        """Kill what the main process left in its group, then reap it."""
        self.kill_group()
        self._popen.wait()


def enlarge_pipe(fd: int) -> None:
    """Make a pipe hold more than the usual 64 KiB: fewer switches for the same bytes."""
    if _LINUX:
        try:
            if fcntl.fcntl(fd, _F_GETPIPE_SZ) < _PIPE_SIZE:
                fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:
            return  # over the user's quota; the default size does


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
    for pid in _children():
        if pid not in others:
            _reap_if_dead(pid)


def sweep(others: Collection[int] = ()) -> None:
    """Kill and reap every child but `others`; a dying one hands us its own children."""
    deadline = time.monotonic() + _SWEEP
    while time.monotonic() < deadline:
        left = [pid for pid in _children() if pid not in others]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            _reap_if_dead(pid)
        time.sleep(0.005)  # the workers are gone: nothing else waits meanwhile


def _children() -> list[int]:
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
