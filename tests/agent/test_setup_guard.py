"""The guard over a host's login shell: what it does when it is slower than the shell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# The guard stands still right after its fork, as on a busy host, until the child has ended.
SLOW = """
import os, sys, time
from zlaunch.agent import setup_guard
fork = os.fork
def slowly():
    child = fork()
    if child:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    return child
os.fork = slowly
sys.exit(setup_guard.guard(sys.argv[1:]))
"""


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
def test_a_shell_that_ends_before_it_is_watched_is_not_waited_for(command: str, code: int) -> None:
    link, ours = os.pipe()
    events, theirs = os.pipe()
    argv = [sys.executable, "-c", SLOW, "sh", "-c", command]
    places = f'exec 8<&{link} 9>&{theirs}; exec "$@"'
    guard = subprocess.Popen(["bash", "-c", places, "bash", *argv], pass_fds=(link, theirs))
    try:
        assert guard.wait(20) == code
    finally:
        guard.kill()
        guard.wait()
        for fd in (link, ours, events, theirs):
            os.close(fd)
