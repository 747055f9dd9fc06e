"""Lint: whether DeepSpeed will say when the loss scale overflows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from zlaunch.dsconfig.finding import Finding, Look
from zlaunch.dsconfig.lint_precision import is_on
from zlaunch.dsconfig.versions import LOG_LEVEL_SINCE, QUIET_SINCE, spelled

_SPEAKING = frozenset({"info", "debug"})


def check_speech(look: Look) -> Iterator[Finding]:
    """What a config with a dynamic loss scale lacks for its overflow lines to be printed."""
    version = look.schema.version
    enabled = look.get("fp16", "enabled")
    if not (is_on(enabled) or enabled == "auto") or look.number("fp16", "loss_scale"):
        return
    missing = []
    level = look.config.get("log_level")
    if version >= LOG_LEVEL_SINCE and not (isinstance(level, str) and level.lower() in _SPEAKING):
        missing.append('"log_level": "info"')
    # Accelerate, which the Trainer uses too, sets steps_per_print itself.
    steps = look.config.get("steps_per_print")
    finite = isinstance(steps, (int, float)) and math.isfinite(steps) and steps > 0
    if look.around.target == "plain" and not finite:
        missing.append('"steps_per_print": 100')
    if missing and version >= QUIET_SINCE and look.document.complete:
        text = f"overflows of the loss scale stay hidden: DeepSpeed {spelled(version)} prints"
        text += f" them only with {' and '.join(missing)}"
        yield look.finds("note", "silent-overflow", ("fp16",), text, "add it", at_value=False)
