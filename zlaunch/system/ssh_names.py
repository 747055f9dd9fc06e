"""The hosts that the user's OpenSSH configuration calls by name."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from zlaunch.errors import ZlaunchError
from zlaunch.system.ssh_lines import lines

_PATTERN = "*?!"


def host_names(home: Path) -> list[str]:
    """Return the names in the `Host` lines, without patterns; what cannot be read names none."""
    folder = home / ".ssh"
    return list(dict.fromkeys(_names(folder / "config", folder, home, set())))


def _names(path: Path, base: Path, home: Path, read: set[Path]) -> Iterator[str]:
    if path in read or not path.is_file():
        return
    read.add(path)
    with suppress(ZlaunchError, OSError):
        for line in lines(path):
            if line.keyword == "host":
                yield from (word for word in line.words() if not set(_PATTERN) & set(word))
            elif line.keyword == "include":
                for word in line.words():
                    for found in sorted(glob.glob(str(base / line.path(word, home)))):  # noqa: PTH207
                        yield from _names(Path(found), base, home, read)
