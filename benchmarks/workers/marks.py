"""Files by which a rank tells the benchmark how far it is; they appear whole."""

import os
from pathlib import Path

RANK = int(os.environ["RANK"])


def mark(directory: str, name: str, text: str = "") -> None:
    """Make the file NAME-RANK with `text` in it."""
    beside = Path(directory, f"new-{name}-{RANK}")
    beside.write_text(text)
    beside.rename(Path(directory, f"{name}-{RANK}"))


def up(directory: str) -> None:
    """Say that this rank runs, and under which pid."""
    mark(directory, "up", str(os.getpid()))
