"""The user's own ds_config: what its text is, before it is judged."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.reader import read_document
from zlaunch.errors import ConfigError


def read_source(text: str, name: str) -> Document:
    """The document that `text` holds, as JSON or hjson; `name` is its file, for errors.

    What is wrong inside it is found by `lint`. Raises `ConfigError` for an empty file, and for
    base64, the form that DeepSpeed takes on a command line.
    """
    if not text.removeprefix("\ufeff").strip():
        raise ConfigError("this ds_config is empty", where=name, hint="write at least {}")
    if _is_base64(text):
        raise ConfigError(
            "this is base64, not a ds_config", where=name, hint="decode it into a file first"
        )
    return read_document(text)


def parse_config(text: str, name: str) -> dict[str, Any]:
    """The config that `text` holds, where only its values matter; JSON or hjson.

    Raises `ConfigError`, with `name:line:column`, for what DeepSpeed could not read as meant.
    """
    document = read_source(text, name)
    for oddity in document.oddities:
        if oddity.fatal:
            where = f"{name}:{oddity.place.line}:{oddity.place.column}"
            raise ConfigError(
                f"this ds_config cannot be read: {oddity.text}", where=where, hint=oddity.mend
            )
    if not isinstance(document.value, dict):
        raise ConfigError(
            "a ds_config is one object with keys",
            where=name,
            hint='it looks like {"train_batch_size": 32, ...}',
        )
    return document.value


def _is_base64(text: str) -> bool:
    """Whether `text` is a JSON object in base64."""
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", ""):
        return False
    try:
        decoded = base64.urlsafe_b64decode("".join(text.split()))
        return decoded.lstrip().startswith(b"{")
    except (binascii.Error, ValueError):
        return False
