"""What is said to a running launcher from another shell: one JSON object a line, each way.

`{"do": "stacks"}` is answered with `{"ok": true, ...}`, or with `{"ok": false, "error": "..."}`
where it cannot be done. One connection, one request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LONGEST_REQUEST = 64 << 10  # bytes


class ControlError(Exception):
    """What was said is no request or no answer; its text says why."""


def encode_line(fields: Mapping[str, Any]) -> bytes:
    """Return an object as the line that is sent."""
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def request(do: str, **fields: Any) -> bytes:
    """Return the line that asks for something."""
    return encode_line({"do": do, **fields})


def parse_request(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return what is asked for, and its fields.

    Raises ControlError.
    """
    fields = _object(line)
    do = fields.pop("do", None)
    if not isinstance(do, str):
        raise ControlError("a request says what to do")
    return do, fields


def answer(**fields: Any) -> bytes:
    """Return the line that answers a request."""
    return encode_line({"ok": True, **fields})


def refusal(why: str) -> bytes:
    """Return the line that says why a request cannot be followed."""
    return encode_line({"ok": False, "error": why})


def parse_answer(line: bytes) -> dict[str, Any]:
    """Return the fields of an answer.

    Raises ControlError, for a refusal too.
    """
    fields = _object(line)
    if fields.pop("ok", None) is not True:
        raise ControlError(str(fields.get("error", "it did not answer")))
    return fields


def _object(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ControlError(f"what was said is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ControlError("what was said is no object")
    return fields
