"""Locks in torch's cache of compiled extensions that nobody will ever take away.

torch guards the build of an extension with a file named `lock` beside it, which the builder
makes, keeps open, and removes (`torch/utils/file_baton.py`). A builder that was killed leaves
it, and every later rank waits for it without a word, for ever.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_OLD = 60.0  # seconds; a younger one may belong to a builder on another host
_PLACES = ("*/lock", "*/*/lock")  # <root>/[<Python and CUDA>/]<extension>/lock


def cache_root(env: Mapping[str, str]) -> Path:
    """Where torch builds extensions, as its `get_default_build_root` has it."""
    if env.get("TORCH_EXTENSIONS_DIR"):
        return Path(env["TORCH_EXTENSIONS_DIR"])
    home = env.get("HOME") or str(Path.home())
    return Path(env.get("XDG_CACHE_HOME") or Path(home, ".cache"), "torch_extensions")


def stale_locks(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of locks that are not fresh and that no process here has open."""
    found = (path for place in _PLACES for path in cache_root(env).glob(place))
    locks = [path for path in found if _age(path) > _OLD]
    held = set(_open_files()) if locks else set()
    return tuple(sorted(str(path) for path in locks if os.path.realpath(path) not in held))


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _open_files() -> Iterator[str]:
    """Every file that a process has open, as far as this user may see it."""
    for pid in filter(str.isdigit, _entries("/proc")):
        for fd in _entries(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield str(Path(f"/proc/{pid}/fd/{fd}").readlink())


def _entries(folder: str) -> Sequence[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:
        return ()
