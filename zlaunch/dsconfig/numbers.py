"""Numbers as other languages write them, `08`, `0x8`, `.5`, `1_000`, and how JSON does."""

from __future__ import annotations

import math
import re

_BASED = re.compile(r"([+-]?)0([xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_DECIMAL = re.compile(r"([+-]?)(\d[\d_]*|(?=\.\d))(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
_PRODUCT = re.compile(r"\d{1,6}(\*\d{1,6}){1,4}", re.ASCII)
_POWER = re.compile(r"(\d{1,4})\*\*(\d{1,2})", re.ASCII)
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+", re.ASCII)
_LONGEST = 60  # characters; nobody writes a longer one by mistake
_SUFFIXES = ";lLfFjn"  # of statements, and of numbers in C and JavaScript


def as_json(text: str) -> str | None:
    """The number of JSON that `text` means in another language; None where it means none."""
    text = text.strip()
    if not 0 < len(text) <= _LONGEST:
        return None
    based = _BASED.fullmatch(text)
    if based:
        digits = based[2]
        return _signed(based[1], str(int(digits[1:], {"x": 16, "o": 8, "b": 2}[digits[0].lower()])))
    if _PRODUCT.fullmatch(text):
        return str(math.prod(int(factor) for factor in text.split("*")))
    power = _POWER.fullmatch(text)
    if power:
        return str(int(power[1]) ** int(power[2]))
    if _GROUPED.fullmatch(text):
        return text.replace(",", "")
    return _decimal(text) or (_decimal(text[:-1]) if text[-1] in _SUFFIXES else None)


def _decimal(text: str) -> str | None:
    found = _DECIMAL.fullmatch(text)
    if not found:
        return None
    sign, whole, fraction, exponent = found.groups()
    whole = whole.replace("_", "").lstrip("0") or "0"
    fraction = f".{fraction}" if fraction else ""
    return _signed(sign, f"{whole}{fraction}{f'e{exponent}' if exponent else ''}")


def _signed(sign: str, digits: str) -> str:
    return f"-{digits}" if sign == "-" else digits
