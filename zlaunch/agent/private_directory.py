"""A directory of the agent's own on its node, for the time of a run.

It is locked, so that nobody takes it for forgotten: neither another agent, which takes away those
of agents that were killed, nor systemd-tmpfiles, which clears /tmp of what is old.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

_NAME = "zlaunch-handler-"
_OURS = ("sitecustomize.py", "build_operators.py")  # what one has, if it is of ours
_JUST_MADE = 60.0  # seconds in which one may not be locked yet


class PrivateDirectory:
    """Empty until `make`; `path` is empty as well until then."""

    def __init__(self) -> None:
        self.path = ""
        self._lock = -1

    def make(self) -> None:
        """Make it, and take away those that were left behind.

        Raises OSError or ValueError.
        """
        base = os.path.realpath(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108  # then 0700
        _clear(base)
        path = os.path.join(base, f"{_NAME}{os.urandom(8).hex()}")
        os.mkdir(path, 0o700)
        self.path = path
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file in it.

        Raises OSError.
        """
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        fd = os.open(os.path.join(self.path, name), flags, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def remove(self) -> None:
        """Take it away, with all that lies there."""
        if self.path:
            _remove(self.path)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _clear(base: str) -> None:
    """Remove what killed agents of this user have left: nobody holds the lock of theirs."""
    before = time.time() - _JUST_MADE
    for entry in os.scandir(base):
        if not entry.name.startswith(_NAME) or not entry.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            if found.st_uid != os.geteuid() or found.st_mtime > before:
                continue
            fd = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if any(os.path.exists(os.path.join(entry.path, name)) for name in _OURS):
                    _remove(entry.path)
            finally:
                os.close(fd)


def _remove(path: str) -> None:
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
        with contextlib.suppress(OSError):
            os.rmdir(folder)
