"""Files that the user names: read whole, or refused with the way out."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from zlaunch.errors import InputError


def read_file(
    path: str | Path,
    what: str,
    *,
    error: type[InputError] = InputError,
    encoding: str = "utf-8-sig",
    errors: str = "strict",
) -> str:
    """Return the text of a file; `what` says which one, as the user would (`--hostfile hosts`).

    Raises `error`.
    """
    try:
        return Path(path).read_text(encoding, errors)
    except FileNotFoundError as caught:
        raise error(f"{what} was not found", hint=similar_files(str(path))) from caught
    except OSError as caught:
        raise error(f"{what} cannot be read: {caught.strerror}") from caught
    except UnicodeDecodeError as caught:
        raise error(f"{what} is not UTF-8 text") from caught
    except ValueError as caught:  # a NUL in the path
        raise error(f"{what} is no file name: {caught}") from caught


def similar_files(name: str) -> str | None:
    """Name files beside `name` that are spelled alike."""
    path = Path(name)
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - names are what is compared
    except OSError:
        return f"there is no directory {path.parent}"
    alike = difflib.get_close_matches(path.name, names, n=3)
    return f"similar: {', '.join(str(path.parent / name) for name in alike)}" if alike else None
