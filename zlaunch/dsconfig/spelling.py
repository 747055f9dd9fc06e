"""Which of some names another one was meant to be."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable

_CLOSE = 0.75  # how alike two names are before one is taken for the other
_SAME_WORD = 0.8


@functools.lru_cache(maxsize=2048)
def plain_form(name: str) -> str:
    """A name in the form of DeepSpeed's own: `trainBatchSize`, `TRAIN-BATCH-SIZE`."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s-]+", "_", parts).lower()


def nearest(name: str, known: Iterable[str], close: float = _CLOSE) -> str | None:
    """The known name that is most like `name`; None where none is like it.

    A name made of the same words, or of some of them, comes before one that has more letters in
    common: `warmup_step` is `warmup_num_steps`, not `warmup_type`.
    """
    asked = plain_form(name)
    matcher = difflib.SequenceMatcher(None, "", asked)  # which remembers its second text
    scored = {one: _alike(asked, one, matcher) for one in known}
    best = max(scored, key=lambda one: scored[one], default=None)
    return best if best is not None and scored[best] >= close else None


def alike(one: str, other: str) -> float:
    """How many letters two names have in common, as a share."""
    return difflib.SequenceMatcher(None, one, other).ratio()


def _alike(asked: str, known: str, matcher: difflib.SequenceMatcher[str]) -> float:
    form = plain_form(known)
    if asked == form:
        return 2.0
    matcher.set_seq1(form)
    if matcher.real_quick_ratio() < _SHARED or matcher.quick_ratio() < _SHARED:
        return 0.0
    mine, theirs = asked.split("_"), form.split("_")
    words = len(mine) > 1 and all(any(_same(word, other) for other in theirs) for word in mine)
    if not words and matcher.quick_ratio() < _CLOSEST:
        return 0.0
    return matcher.ratio() + (1.0 if words else 0.0)


_SHARED = 0.5  # fewer letters in common, and no words are compared
_CLOSEST = 0.7  # the least that anyone here asks for


def _same(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    if len(short) > 2 and long.startswith(short):
        return True
    return len(short) > 3 and len(long) - len(short) < 4 and alike(one, other) >= _SAME_WORD
