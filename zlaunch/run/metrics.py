"""A line of metrics.jsonl: what a rank told of its training, or what it uses.

One JSON object a line, of each rank and source in the order of arrival; several of them may be a
second apart in the file. What is not known is absent, never null; the numbers that JSON does not
have are the texts "nan", "inf" and "-inf".
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from zlaunch.frozen import frozen

SYSTEM: Final = "system"
"""The source of what a rank uses; the others tell what it printed."""


@frozen
class Metric:
    """What one rank told at one time; None is not known.

    at                  seconds since the epoch, when the launcher read it
    source              "deepspeed", "trainer", "accelerate" or "print": whose words they are;
                        "system": what the rank uses, the last five fields
    step, total         of optimizer steps, and how many there are to be
    epoch               as it was told: 1.25, or the number of the epoch
    overflow            this line tells of a step that was skipped, its gradients not finite
    skipped             skipped steps in all so far
    step_seconds        of one step
    gpu_memory          bytes that the rank's own processes have on their GPU, or where that is
                        not told, that are taken there
    gpu_utilization     percent, 0 to 100
    rss                 bytes of memory of the rank's processes together
    cpu                 cores that they keep busy: 1.5 is one and a half
    """

    at: float
    attempt: int
    rank: int
    source: str
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    loss: float | None = None
    lr: float | None = None
    grad_norm: float | None = None
    loss_scale: float | None = None
    overflow: bool | None = None
    skipped: int | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    step_seconds: float | None = None
    eval_loss: float | None = None
    gpu_memory: int | None = None
    gpu_memory_total: int | None = None
    gpu_utilization: float | None = None
    rss: int | None = None
    cpu: float | None = None


_COUNTS: Final = frozenset(
    ("attempt", "rank", "step", "total", "skipped", "gpu_memory", "gpu_memory_total", "rss")
)
_REQUIRED: Final = ("at", "attempt", "rank", "source")
_NAMES: Final = tuple(Metric.__dataclass_fields__)
_MOST: Final = 1 << 63
_LAST_SECOND: Final = 1e11  # a time beyond is none
_WORDS: Final = ("nan", "inf", "-inf")


def encode(metric: Metric) -> bytes:
    """Return the line, with its newline."""
    fields = {
        name: _written(value)
        for name in _NAMES
        if (value := getattr(metric, name)) is not None
    }  # fmt: skip
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _written(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def decode(line: bytes | str) -> Metric | None:
    """Read a line; None for what is none: cut short, another object, a field of another kind.

    Fields that are not known here are left out.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or any(name not in fields for name in _REQUIRED):
        return None
    try:
        return Metric(**{name: _read(name, fields[name]) for name in _NAMES if name in fields})
    except (ValueError, OverflowError):
        return None


def _read(name: str, value: Any) -> Any:
    """The value of a field. Raises ValueError or OverflowError."""
    if name == "source":
        fits = isinstance(value, str)
    elif name == "overflow":
        fits = isinstance(value, bool)
    elif name in _COUNTS:
        fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        fits = fits or (isinstance(value, str) and value in _WORDS)
        value = float(value) if fits else value
        fits = fits and (name != "at" or 0 <= value < _LAST_SECOND)
    if not fits:
        raise ValueError(name)
    return value
