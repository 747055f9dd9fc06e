"""An agent of this machine that gets ready while the launcher itself is still being loaded.

Each of the two takes some 50 ms for that, and there is a core for each. It does nothing before its
first order, and it ends when it is not wanted or its launcher ends.
"""

from __future__ import annotations

import atexit
import sys
from pathlib import Path

from zlaunch.backends.process import ProcessLink
from zlaunch.errors import BackendError

# The agent uses the standard library only, so `site` and the user's PYTHON* variables stay
# out of it: it starts in half the time and cannot be led astray by them.
_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from zlaunch.agent.node import serve; {}serve(int(sys.argv[2]))"
)
# What it would load later, had it not the time now.
_AHEAD = "import hashlib, pathlib, shutil; "
_HERE = str(Path(__file__).parents[2])

_begun: list[ProcessLink] = []  # one at most


def command(node_rank: int, ahead: str = "") -> list[str]:
    """The command line of an agent on this machine."""
    start = _START.format(ahead)
    return [sys.executable, "-I", "-S", "-c", start, _HERE, str(node_rank)]


def begin() -> None:
    """Start one; whoever does not `take` it has to `give_up` before another process is forked."""
    try:
        link = ProcessLink(command(0, _AHEAD), "localhost", greeting=b"", remote=False)
    except BackendError:  # it is told where one is needed
        return
    _begun.append(link)
    atexit.register(give_up)


def take(node_rank: int, host: str) -> ProcessLink | None:
    """Return the one that was begun, if it is to be for this node."""
    if node_rank != 0 or not _begun:
        return None
    link = _begun.pop()
    link.host = host
    return link


def give_up() -> None:
    """End the one that was begun, unless it was taken."""
    while _begun:
        _begun.pop().close(0.0)
