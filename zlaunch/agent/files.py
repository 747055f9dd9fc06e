"""Files that a run needs on its node: written before the start, taken away at the end.

On the launcher's own machine, or where hosts share the directory, they are there already; or
another host's agent is about to make them too. An agent leaves when no rank runs any more.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable


class Files:
    """What was made here, in order."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._directories: list[str] = []

    def write(self, files: Iterable[tuple[str, str]]) -> None:
        """Write each (path, text) that is not there yet.

        A path that ends in a slash is a directory. Raises OSError.
        """
        for path, text in files:
            self._make_directories(os.path.dirname(path))
            if path.endswith("/") or os.path.exists(path):
                continue
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
        """Take away what was written; a directory that is no longer empty stays."""
        for path in self._files:
            with contextlib.suppress(OSError):
                os.unlink(path)
        for path in reversed(self._directories):
            with contextlib.suppress(OSError):
                os.rmdir(path)
