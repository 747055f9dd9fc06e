"""The token by which the nodes of a run know each other, from a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from zlaunch.errors import InputError

_SHORTEST, _LONGEST = 16, 4096  # bytes
_MAKE_ONE = 'python3 -c "import secrets; print(secrets.token_hex(32))" makes one'


def read_token(path: str | None) -> tuple[bytes, str | None]:
    """Return the token, and a note where others may read it as well.

    Raises InputError.
    """
    if path is None:
        raise InputError(
            "--token-file is missing: by it the nodes know each other",
            hint=f"a file with the same content on every node; {_MAKE_ONE}",
        )
    try:
        with Path(path).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read(_LONGEST + 1).strip()
    except OSError as error:
        raise InputError(
            f"--token-file {path} cannot be read: {error.strerror}", hint=_MAKE_ONE
        ) from error
    if len(token) > _LONGEST:
        raise InputError(f"--token-file {path} holds more than {_LONGEST} bytes", hint=_MAKE_ONE)
    if len(token) < _SHORTEST:
        found = f"{len(token)} bytes" if token else "nothing"
        raise InputError(
            f"--token-file {path} holds {found}, and a token has {_SHORTEST} bytes at least",
            hint=_MAKE_ONE,
        )
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        return token, f"--token-file {path} can be read by others (mode {mode:04o})"
    return token, None
