"""Locks in torch's cache of compiled extensions that nobody will ever take away.

torch guards the build of an extension with a file named `lock` beside it, which the builder
makes, keeps open, and removes (`torch/utils/file_baton.py`). A builder that was killed leaves
it, and every later rank waits for it without a word, for ever.

Travels to the agent, and beside `workers/build_operators.py`, so it stays within Python 3.9 and
the standard library.
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
    """Where torch builds extensions: as given, be it empty, else its `get_default_build_root`.

    `_root` of `workers/build_operators.py`, which travels alone, knows the same.
    """
    given = env.get("TORCH_EXTENSIONS_DIR")
    if given is not None:
        return Path(given)
    home = env.get("HOME") or str(Path.home())
    return Path(env.get("XDG_CACHE_HOME", Path(home, ".cache")), "torch_extensions")


def stale_locks(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of locks that are not fresh and that no process here has open."""
    found = (path for place in _PLACES for path in cache_root(env).glob(place))
    locks = [path for path in found if _age(path) > _OLD]
    held = {path for _, path in _open_files()} if locks else set()
    return tuple(sorted(str(path) for path in locks if os.path.realpath(path) not in held))


def holder_of(lock: str) -> tuple[int | None, bool]:
    """Return the pid of the process here that has the lock open, if any; and whether it is stale.

    One that is not stale, though nobody here has it, may be another host's.
    """
    path = os.path.realpath(lock)
    pid = next((int(pid) for pid, file in _open_files() if file == path), None)
    return pid, pid is None and _age(Path(lock)) > _OLD


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _open_files() -> Iterator[tuple[str, str]]:
    """Pid and path of every file that a process has open, as far as this user may see it."""
    for pid in filter(str.isdigit, _entries("/proc")):
        for fd in _entries(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield pid, str(Path(f"/proc/{pid}/fd/{fd}").readlink())


def _entries(folder: str) -> Sequence[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:
        return ()
