"""The SHA-256 of a script, by which a host's is compared with the launcher's.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def script_digest(script: Path) -> str | None:
    """Return it in hex, of a directory that of its __main__.py; None where there is no file."""
    path = script / "__main__.py" if script.is_dir() else script
    try:
        if not path.is_file():  # reading a FIFO would wait for its writer
            return None
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
