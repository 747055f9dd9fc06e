"""The user's own ds_config: what its text is, before it is judged."""

from __future__ import annotations

import base64
import binascii
import re
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
    if is_base64(text):
        complete = _decoded("".join(text.split())) is not None
        raise ConfigError(
            "this is base64, not a ds_config"
            if complete
            else "this is base64 that is cut off, or lacks the = at its end: nobody decodes it",
            where=name,
            hint="decode it into a file first" if complete else "base64 -w0 ds_config.json",
        )
    return read_document(text)


def parse_config(text: str, name: str) -> dict[str, Any]:
    """The config that `text` holds, where only its values matter; JSON or hjson.

    Raises `ConfigError`, with `name:line:column`, for what DeepSpeed could not read as meant.
    """
    return as_config(read_source(text, name), name)


def as_config(document: Document, name: str) -> dict[str, Any]:
    """The config of a document; raises `ConfigError` as `parse_config`."""
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


def is_base64(text: str) -> bool:
    """Whether `text` is a JSON object in base64, or begins as one does: it may be cut off."""
    packed = "".join(text.removeprefix("\ufeff").split())
    if not re.fullmatch(r"[A-Za-z0-9+/_-]+=*", packed):
        return False
    packed = packed.rstrip("=")
    begin = _decoded(packed[: len(packed) // 4 * 4])
    return begin is not None and begin.lstrip().startswith(b"{")


def _decoded(packed: str) -> bytes | None:
    """As DeepSpeed and transformers decode it: of both alphabets, and with its padding."""
    try:
        return base64.urlsafe_b64decode(packed.replace("+", "-").replace("/", "_"))
    except (binascii.Error, ValueError):
        return None
