"""Roll-calls in a run directory: `stacks-1.txt`, `stacks-2.txt`, ..."""

from __future__ import annotations

from pathlib import Path

from zlaunch.errors import InputError
from zlaunch.system.rundir import RunDir


def keep_stacks(run: RunDir, text: str) -> str | None:
    """Write a roll-call; return its path, None where the disk does not take it."""
    path = run.path / f"stacks-{len(kept_stacks(run)) + 1}.txt"
    try:
        run.write_text(path, text)
    except InputError:
        return None
    return str(path)


def kept_stacks(run: RunDir) -> list[Path]:
    """All roll-calls that were written, the latest last."""
    found = run.path.glob("stacks-*.txt")
    return sorted(found, key=lambda path: (len(path.name), path.name))
