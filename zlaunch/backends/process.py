"""A link through a child process: the agent itself, or the program that leads to it."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping, Sequence

from zlaunch.backends.base import ENDED, WELL
from zlaunch.errors import BackendError
from zlaunch.system.stdio import enlarge_pipe

_DIES = 2.0  # seconds for a child that was killed to be gone
_MOMENT = 0.2  # seconds between the end of a child's output and its own


class ProcessLink:
    """The link is the child's stdin and stdout."""

    def __init__(
        self,
        argv: Sequence[str],
        host: str,
        *,
        greeting: bytes,
        remote: bool,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start the child, with our environment unless it gets another one.

        Raises BackendError.
        """
        self.host = host
        self.greeting = greeting
        self.remote = remote
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                # Out of the terminal's reach: Ctrl-C goes to the launcher alone.
                start_new_session=True,
            )
        except OSError as error:
            raise BackendError(f"{argv[0]} could not be started: {error.strerror}") from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self.outgoing = self._process.stdin.fileno()
        self.incoming = self._process.stdout.fileno()
        self.errors = self._process.stderr.fileno()
        enlarge_pipe(self.incoming)
        os.set_blocking(self.errors, False)

    def explain(self, how: str, words: str, began: bool) -> str:  # noqa: ARG002
        """Name the host, what showed, and what was printed last."""
        return f"the agent on {self.host} {self.ended(how)}" + (f":\n{words}" if words else "")

    def heard(self, words: str) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing is told but where the agent is lost."""
        return ()

    def ended(self, how: str) -> str:
        """Add the child's exit code, where it has one already."""
        if how != ENDED or not self._ends_within(_MOMENT):
            return how
        return f"{how} ({self._describe(self._process.wait())})"

    def hang_up(self) -> None:
        """Close the child's stdin."""
        assert self._process.stdin
        self._process.stdin.close()

    def close(self, timeout: float) -> str:
        """Wait for the child's end; one that stays is killed. Return how it ended."""
        self.hang_up()
        if not self._ends_within(timeout):
            self._process.kill()
        # One that hangs in the kernel does not die even of KILL; nobody waits for it.
        code = self._process.wait() if self._ends_within(_DIES) else None
        for stream in (self._process.stdout, self._process.stderr):
            assert stream
            stream.close()
        return "does not die of KILL" if code is None else self._describe(code)

    @staticmethod
    def _describe(code: int) -> str:
        if code == 0:
            return WELL
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
