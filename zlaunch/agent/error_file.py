"""What a script that uses torch's @record leaves behind when it fails: TORCHELASTIC_ERROR_FILE.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import os

_LONGEST = 64 << 10  # bytes


def read_error_file(path: str) -> str:
    """Return what is in it, "" where there is nothing, or something that is no plain file."""
    if not path:
        return ""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, _LONGEST).decode("utf-8", "replace")
    except OSError:  # a directory
        return ""
    finally:
        os.close(fd)
