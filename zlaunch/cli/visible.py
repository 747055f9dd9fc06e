"""Texts of others, for a screen."""

from __future__ import annotations


def visible(text: str) -> str:
    """Show control characters as they are written in Python, instead of obeying them."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
