"""Network namespaces: made, filled with processes, and gone again with all that ran in them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

BOUND = 60.0  # seconds; for every wait here, far more than any of them takes
NAMED = Path("/run/netns")
# Where Debian has sshd and ip; root's PATH under sudo or cron may lack it.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def program(name: str) -> str | None:
    return shutil.which(name, path=PATH)


def ip(*words: str, lines: Iterable[str] = ()) -> None:
    """Run one `ip` command, or with `-batch -` several, one a line."""
    done = subprocess.run(
        [program("ip") or "ip", *words],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    if done.returncode:
        kind = FileExistsError if "File exists" in done.stderr else OSError
        raise kind(f"ip {' '.join(words)}: {done.stderr.strip()}")


def state(pid: int) -> str:
    """The letter that `ps` shows; X for one that is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    return "X"


class Namespace:
    """One network namespace by name; with hostname and /etc/hosts of its own for who enters."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._file = NAMED / name

    def create(self) -> None:
        ip("netns", "add", self.name)
        self._made = self._file.stat()
        ip("-n", self.name, "link", "set", "lo", "up")

    def delete(self) -> None:
        """Kill what runs inside, then remove it; nothing to do where it was never made."""
        if not self._file.exists():
            return
        try:
            self.clear()
        finally:
            ip("netns", "del", self.name)

    def clear(self) -> None:
        """Kill all inside. Again and again, since a process may start another meanwhile."""
        deadline = time.monotonic() + BOUND
        while self.signal(self.pids(), signal.SIGKILL):
            if time.monotonic() > deadline:
                raise TimeoutError(f"still alive in {self.name}: {self.pids()}")
            time.sleep(0.01)

    def pids(self) -> list[int]:
        """Who is inside: what `ip netns pids` says, without starting a program for it."""
        with os.scandir("/proc") as entries:
            numbers = [int(entry.name) for entry in entries if entry.name.isdigit()]
        return sorted(pid for pid in numbers if self._holds(pid))

    def signal(self, pids: Iterable[int], number: int) -> int:
        """Signal those that are still inside, never one that got a number again; how many."""
        sent = 0
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                fd = os.pidfd_open(pid)
                try:
                    if self._holds(pid):
                        signal.pidfd_send_signal(fd, number)
                        sent += 1
                finally:
                    os.close(fd)
        return sent

    def freeze(self, pids: Iterable[int]) -> None:
        """Stop those that are still inside; not before each has stopped does this return."""
        awake = list(pids)
        deadline = time.monotonic() + BOUND
        # Whoever is not stopped yet may have woken one that was.
        while awake := [pid for pid in awake if self._holds(pid) and state(pid) not in "TtZX"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not stopped in {self.name}: {awake}")
            self.signal(awake, signal.SIGSTOP)
            time.sleep(0.005)

    def _holds(self, pid: int) -> bool:
        # A zombie has no namespace any more; and some machines hide their init even from root.
        try:
            theirs = Path(f"/proc/{pid}/ns/net").stat()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False
        return os.path.samestat(theirs, self._made)


def entering(namespace: Namespace, hostname: str, mounts: dict[str, Path]) -> list[str]:
    """The words before a command that runs it inside, with these files over the machine's own.

    `ip netns exec` gives the command a mount namespace that nobody else sees.
    """
    script = [f"mount --bind '{source}' {target}" for target, source in mounts.items()]
    script = [f"hostname {hostname}", *script, 'exec "$@"']
    inside = ["unshare", "--uts", "sh", "-euc", "\n".join(script), "enter"]
    return [program("ip") or "ip", "netns", "exec", namespace.name, *inside]
