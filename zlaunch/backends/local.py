"""An agent on this machine: a child process that needs no more than this interpreter."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from zlaunch.errors import BackendError
from zlaunch.system.spawn import adopt_orphans, enlarge_pipe, sweep

# The agent uses the standard library only, so `site` and the user's PYTHON* variables stay
# out of it: it starts in half the time and cannot be led astray by them.
_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from zlaunch.agent.node import serve; serve(int(sys.argv[2]))"
)
_HERE = str(Path(__file__).parents[2])


class LocalLink:
    """The link to an agent that is our child."""

    def __init__(self, node_rank: int, host: str) -> None:
        self.host = host
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, _HERE, str(node_rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Out of the terminal's reach: Ctrl-C goes to the launcher alone.
                start_new_session=True,
            )
        except OSError as error:
            raise BackendError(f"the agent could not be started: {error.strerror}") from error
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self.outgoing = self._process.stdin.fileno()
        self.incoming = self._process.stdout.fileno()
        self.errors = self._process.stderr.fileno()
        enlarge_pipe(self.incoming)
        os.set_blocking(self.errors, False)

    def close(self, timeout: float) -> str:
        """Close the link, upon which the agent leaves; one that does not is killed."""
        assert self._process.stdin
        self._process.stdin.close()
        if not self._ends_within(timeout):
            self._process.kill()
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _ends_within(self, timeout: float) -> bool:
        """Wait on a pidfd, where there is one: `Popen.wait` would look every now and then."""
        try:
            fd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            try:
                return self._process.wait(timeout) is not None
            except subprocess.TimeoutExpired:
                return False
        try:
            return bool(select.select([fd], [], [], timeout)[0])
        finally:
            os.close(fd)


class LocalBackend:
    """Reaches agents on this machine."""

    def __init__(self) -> None:
        # Should an agent be killed, what its workers started comes to us, and is ended by us.
        adopt_orphans()

    def open(self, node_rank: int, host: str) -> LocalLink:
        """Start an agent here."""
        return LocalLink(node_rank, host)

    def close(self) -> None:
        """End what agents that were killed have left behind."""
        sweep()
