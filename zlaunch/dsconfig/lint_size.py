"""Lint: numbers beyond what DeepSpeed, or the machine, can hold, and beyond the limits of a key."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.finding import Finding, Look, is_sane, said
from zlaunch.dsconfig.schema import Field
from zlaunch.dsconfig.values import number_in

Path = tuple[str, ...]

_LARGEST = 2**63 - 1
_TESTS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
_LIMIT_WORDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_BUCKETS = ("reduce_bucket_size", "allgather_bucket_size")
# Limits that validators of the model keep.
_OF_VALIDATORS = {
    ("zero_optimization", "zenflow", "update_interval"): {"ge": 1.0},
    ("fp16", "loss_scale"): {"ge": 0.0},
}
# DeepSpeed makes a tensor, or a shift, of as many elements: more than 2^63 fail in torch.
_ALLOCATED = frozenset(
    {
        ("zero_optimization", "reduce_bucket_size"),
        ("zero_optimization", "offload_param", "buffer_size"),
        ("zero_optimization", "offload_param", "buffer_count"),
        ("zero_optimization", "offload_optimizer", "buffer_count"),
        ("fp16", "initial_scale_power"),
    }
)


def size_of(look: Look, field: Field, path: Path, value: Any) -> tuple[Finding, ...] | None:
    """What is wrong with the size of a number; None where it is of a size to be judged further."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or is_sane(value):
        return None
    if any(oddity.where == path and oddity.fatal for oddity in look.document.oddities):
        return ()  # said by the reader
    dotted = ".".join(path)
    if isinstance(value, float) and not math.isfinite(value):
        text = f"{dotted} is too large to be a number"
        return (look.finds("error", "out-of-range", path, text, "write a smaller one"),)
    if field.choices:
        return None  # it is none of them
    if "int" in field.kinds:
        return _whole(look, field, path, value)
    if "float" in field.kinds and not _fits_a_float(value):
        text = f"{dotted} is {said(value)}: no such number fits"
        return (look.finds("error", "out-of-range", path, text, "write a smaller one"),)
    return None


def _whole(look: Look, field: Field, path: Path, value: float) -> tuple[Finding, ...] | None:
    """Pydantic makes no integer of a larger float; one that is written out it takes."""
    dotted = ".".join(path)
    if value < 0 and {"ge", "gt"} & {*_limits(field, path)}:
        return None  # said of what is too small
    if (field.lax and isinstance(value, float)) or path in _ALLOCATED:
        text = f"{dotted} is {said(value)}; whole numbers go to {_LARGEST}"
        mend = f"write {_LARGEST} for no limit" if value > 0 else "write a number closer to 0"
        return (look.finds("error", "out-of-range", path, text, mend),)
    text = f"{dotted} is {said(value)}, more than there can be of anything"
    return (look.finds("note", "out-of-range", path, text, "write a smaller one"),)


def _fits_a_float(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def limits_of_value(look: Look, field: Field, path: Path, value: Any) -> Iterator[Finding]:
    """A number outside of the limits that its key has in DeepSpeed's model."""
    number = number_in(value) if isinstance(value, str) else value
    if not isinstance(number, (int, float)) or {"bool", "any"} & {*field.kinds}:
        return
    if number == 0 and path[-1] in _BUCKETS:
        return  # said more plainly in `lint_zero`
    for name, limit in _limits(field, path).items():
        if not _TESTS[name](number, limit):
            bound = int(limit) if limit == int(limit) else limit
            text = f"{'.'.join(path)} is {said(value)}; it has to be {_LIMIT_WORDS[name]} {bound}"
            yield look.finds("error", "out-of-range", path, text, "change it, or leave it out")
            return


def _limits(field: Field, path: Path) -> Mapping[str, float]:
    return _OF_VALIDATORS.get(path, field.limits)
