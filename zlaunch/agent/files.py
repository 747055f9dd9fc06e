"""Files that a run needs on its node: written before the start, taken away at the end.

On the launcher's own machine, or where hosts share the directory, they are there already; or
another host's agent is about to make them too. An agent leaves when no rank runs any more.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

_OTHERS = 1.0  # seconds for other agents to take away theirs


class Files:
    """What was made here, in order."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._directories: list[str] = []
        self._wanted: list[str] = []

    def write(self, files: Iterable[tuple[str, str]]) -> None:
        """Write each (path, text) that is not there yet.

        A path that ends in a slash is a directory. Raises OSError.
        """
        for path, text in files:
            self._wanted.append(path)
            try:
                self._write(path, text)
            except OSError as error:  # of a full disk the system says no name
                raise OSError(error.errno, error.strerror, path) from error

    def _write(self, path: str, text: str) -> None:
        self._make_directories(os.path.dirname(path))
        if path.endswith("/") or os.path.exists(path):
            return
        beside = f"{path}.{os.urandom(8).hex()}"
        self._files += (beside, path)
        fd = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.replace(beside, path)  # whole at once, and the same whoever comes last

    def _make_directories(self, path: str) -> None:
        if path and not os.path.isdir(path):
            self._make_directories(os.path.dirname(path))
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
                self._directories.append(path)

    def remove(self) -> None:
        """Take away what was written; a directory in which something else lies stays."""
        for path in self._files:
            with contextlib.suppress(OSError):
                os.unlink(path)
        deadline = time.monotonic() + _OTHERS
        for path in reversed(self._directories):
            while not _removed(path) and self._is_left_to_others(path):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)  # nothing else is left to do here

    def _is_left_to_others(self, path: str) -> bool:
        """Whether all that lies there is of the run: another agent is taking it away just now."""
        try:
            lie_there = [entry.path for entry in os.scandir(path)]
        except OSError:
            return False
        return all(any(wanted.startswith(one) for wanted in self._wanted) for one in lie_there)


def _removed(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
