"""Notes: what a user should know about a config that is valid all the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.precision import Precision
from zlaunch.dsconfig.target import Target
from zlaunch.dsconfig.values import AUTO

# Levels at which DeepSpeed's overflow and step lines, which are INFO, come through.
_SPEAKING = ("info", "debug")
# Keys whose "auto" DeepSpeed itself understands as a value.
_OWN_AUTO = (
    "data_types.keep_in_fp32_modules",
    "pipeline.stages",
    "zero_optimization.zenflow.select_strategy",
    "zero_optimization.zenflow.select_interval",
    "zero_optimization.zenflow.update_interval",
)


def recipe_notes(
    config: Mapping[str, Any], target: Target, precision: Precision | None
) -> tuple[str, ...]:
    """Notes on a config rendered from a recipe for which `precision` was asked."""
    if target == "hf" and precision is not None:
        note = (
            "the Trainer takes its precision from its own arguments (--bf16, --fp16):"
            f" {precision} has to be asked for there"
        )
        return (note,)
    return _unfilled(config, target)


def file_notes(config: Mapping[str, Any], target: Target) -> tuple[str, ...]:
    """Notes on the user's own config: "auto" that nobody fills, lines DeepSpeed will not print."""
    return (*_unfilled(config, target), *_silent(config, target))


def _unfilled(config: Mapping[str, Any], target: Target) -> tuple[str, ...]:
    """Names the keys left "auto" in a config that nobody fills.

    DeepSpeed drops such a key from its sub-sections without a word (`fp16.enabled: "auto"`
    trains in fp32) and hands the word on elsewhere.
    """
    keys = [key for key in _autos(config, "") if key not in _OWN_AUTO]
    if target != "plain" or not keys:
        return ()
    note = (
        f'nobody fills "auto" in a plain DeepSpeed script: {", ".join(keys)};'
        " DeepSpeed takes its defaults there, or fails on the word"
    )
    return (note,)


def _silent(config: Mapping[str, Any], target: Target) -> tuple[str, ...]:
    """What the config lacks for DeepSpeed to print its overflow lines."""
    missing = []
    if str(config.get("log_level", "")).lower() not in _SPEAKING:
        missing.append('"log_level": "info"')
    # Accelerate, which the Trainer uses too, sets steps_per_print itself.
    if target == "plain" and not _finite(config.get("steps_per_print")):
        missing.append('a finite "steps_per_print"')
    if not missing:
        return ()
    note = (
        f"this ds_config lacks {' and '.join(missing)}: DeepSpeed 0.17.6 and newer then prints"
        " no overflow line"
    )
    return (note,)


def _autos(config: Mapping[str, Any], above: str) -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _autos(value, f"{above}{key}.")
        elif value == AUTO:
            yield f"{above}{key}"


def _finite(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0
