"""Values of ds_config keys written as text: JSON, with what people really type allowed.

A value is read for the kind of its key (`keypath.Kind`), so that `5e8` is the integer
500000000 for a bucket size and a float for a learning rate.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from zlaunch.dsconfig.keypath import Kind

_NUMBER = re.compile(r"[+-]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][+-]?\d+)?", re.ASCII)
# DeepSpeed uses sys.maxsize as "no limit"; nothing it counts is larger.
_LARGEST = 2**63 - 1
_LONGEST_NUMBER = 64
AUTO = "auto"
# Switches that have to be there, and true or false: no other value will do.
REAL_SWITCHES = frozenset(
    {"wall_clock_breakdown", "flops_profiler.enabled", "checkpoint.parallel_write.pipeline_stage"}
)


class RefusedError(Exception):
    """A text that is no value of its kind; the message says what was expected."""


def read_value(text: str, kind: Kind) -> Any:
    """The value that `text` means for a key of `kind`; `None` stands for "no value".

    Raises `RefusedError`. "auto" is a value of every kind but a section: who fills it is
    decided by the target. `none` stays a word where the key holds words (`device = none`).
    """
    text = text.strip()
    if text == "null" or (text.lower() == "none" and kind not in ("str", "int|str", "list|str")):
        return None
    if text in (AUTO, f'"{AUTO}"') and kind != "section":
        return AUTO
    return _READERS[kind](text)


def whole(value: float) -> int | None:
    """`value` as an integer, `None` where it has a fraction or is not finite."""
    if isinstance(value, int):
        return value
    return int(value) if math.isfinite(value) and value == int(value) else None


def _integer(text: str) -> int:
    number = _decimal(text)
    if number is None:
        raise RefusedError("an integer")
    # Decided on the exponent: the digits of 1e999999 are never written out.
    if number and number.adjusted() > 19:
        raise RefusedError(f"an integer of at most {_LARGEST}")
    if number != number.to_integral_value():
        raise RefusedError("an integer (this has a fraction)")
    if abs(int(number)) > _LARGEST:
        raise RefusedError(f"an integer of at most {_LARGEST}")
    return int(number)


def _float(text: str) -> int | float:
    if _decimal(text) is None:
        raise RefusedError("a number")
    digits = text.replace("_", "")
    if re.fullmatch(r"[+-]?\d+", digits):
        return _integer(digits)
    value = float(digits)
    if not math.isfinite(value):
        raise RefusedError("a finite number")
    return value


def _decimal(text: str) -> Decimal | None:
    """The exact number that `text` writes; `None` where it is no number of a sane size."""
    if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_NUMBER:
        return None
    try:
        return Decimal(text.replace("_", ""))
    except ArithmeticError:  # an exponent beyond what Decimal can hold
        return None


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise RefusedError("true or false")
    return text.lower() == "true"


def _str(text: str) -> str:
    """The bare word, or what stands between JSON's quotes."""
    if not text:
        raise RefusedError('a word (write "" for an empty one)')
    if not text.startswith('"'):
        return text
    value = _json(text)
    if not isinstance(value, str):
        raise RefusedError("a word, or text in double quotes")
    return value


def _list(text: str) -> list[Any]:
    """A JSON list; also `[a, b]`, whose quotes the shell has eaten."""
    if not (text.startswith("[") and text.endswith("]")):
        raise RefusedError("a list, such as [0.9,0.95]")
    value = _json(text)
    if isinstance(value, list):
        return value
    parts = [part.strip() for part in text[1:-1].split(",")]
    if not all(re.fullmatch(r"[\w.+-]+", part) for part in parts):
        raise RefusedError("a list, such as [0.9,0.95]")
    return [_any(part) for part in parts]


def _int_or_str(text: str) -> int | str:
    return _integer(text) if _NUMBER.fullmatch(text) else _str(text)


def _list_or_str(text: str) -> list[Any] | str:
    return _list(text) if text.startswith("[") else _str(text)


def _section(text: str) -> dict[str, Any]:
    value = _json(text) if text.startswith("{") else None
    if not isinstance(value, dict):
        raise RefusedError("a section of keys")
    return value


def _any(text: str) -> Any:
    """The best guess, for keys whose kind DeepSpeed does not fix."""
    if _decimal(text) is not None:
        return _float(text)
    if text.lower() in ("true", "false"):
        return _bool(text)
    if text.startswith("["):
        return _list(text)
    if text.startswith("{"):
        return _section(text)
    return _str(text)


def _json(text: str) -> Any:
    """What the JSON `text` holds, `None` where it is not JSON or holds a number out of range."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_READERS: dict[Kind, Callable[[str], Any]] = {
    "int": _integer,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "list": _list,
    "int|str": _int_or_str,
    "list|str": _list_or_str,
    "any": _any,
    "section": _section,
}


def number_in(text: str) -> int | float | None:
    """The number that a text writes, as `5e8` or `0.1`; None where it is another text."""
    try:
        value = float(text.strip())
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value
