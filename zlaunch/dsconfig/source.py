"""The user's own ds_config: its text as a dict."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from zlaunch.errors import ConfigError

_JSON_HINT = (
    "DeepSpeed also reads hjson (comments, trailing commas); zlaunch does too where the"
    " hjson package is installed, which comes with DeepSpeed"
)


class _DuplicateKeyError(ValueError):
    """A key that stands twice in one object; the first would be lost without a word."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def parse_config(text: str, name: str) -> dict[str, Any]:
    """The config that `text` holds, as JSON or hjson; `name` is its file, for errors.

    Raises `ConfigError`, with `name:line:column` where there is one, for text that is
    neither, an empty file, base64, anything but one object, and a key that stands twice.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ConfigError("this ds_config is empty", where=name, hint="write at least {}")
    try:
        config = json.loads(text, object_pairs_hook=_table, parse_constant=_refuse_constant)
    except _DuplicateKeyError as error:
        raise _duplicate(error.key, text, name) from None
    except (ValueError, RecursionError) as error:
        if _is_base64(text):
            raise ConfigError(
                "this is base64, not a ds_config", where=name, hint="decode it into a file first"
            ) from None
        config = _parse_hjson(text, name, error)
    if not isinstance(config, dict):
        raise ConfigError(
            f"a ds_config is one object with keys, not {_word(config)}",
            where=name,
            hint='it looks like {"train_batch_size": 32, ...}',
        )
    return config


def _parse_hjson(text: str, name: str, json_error: Exception) -> Any:
    """Reads `text` with hjson; when that fails, JSON's place is the better one to show."""
    try:
        import hjson
    except ImportError:
        raise _not_json(json_error, name, hint=_JSON_HINT) from None
    try:
        return hjson.loads(text, object_pairs_hook=_table)
    except _DuplicateKeyError as error:
        raise _duplicate(error.key, text, name) from None
    except (ValueError, RecursionError):
        raise _not_json(json_error, name) from None


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise _DuplicateKeyError(key)
        table[key] = value
    return table


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON value")


def _duplicate(key: str, text: str, name: str) -> ConfigError:
    """The error for a key that stands twice, at the second place where it can be found."""
    places = list(re.finditer(rf'"{re.escape(key)}"\s*:', text))
    line = text.count("\n", 0, places[1].start()) + 1 if len(places) > 1 else None
    return ConfigError(
        f'the key "{key}" stands twice in one object',
        where=f"{name}:{line}" if line and len(places) == 2 else name,
        hint="DeepSpeed refuses this; keep one of them",
    )


def _not_json(error: Exception, name: str, *, hint: str | None = None) -> ConfigError:
    if isinstance(error, json.JSONDecodeError):
        place, reason = f"{name}:{error.lineno}:{error.colno}", error.msg
    else:
        place, reason = name, str(error) or "nested too deeply"
    return ConfigError(f"this ds_config is not JSON: {reason}", where=place, hint=hint)


def _is_base64(text: str) -> bool:
    """Whether `text` is a JSON object in base64, the form DeepSpeed takes on a command line."""
    try:
        decoded = base64.urlsafe_b64decode("".join(text.split()))
        return decoded.lstrip().startswith(b"{")
    except (binascii.Error, ValueError):
        return False


def _word(value: Any) -> str:
    if value is None:
        return "null"
    return {list: "a list", str: "plain text", bool: "true or false"}.get(type(value), "a number")
