"""The precision of a run inside a ds_config: the sections fp16 and bf16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from zlaunch.errors import ConfigError

Precision: TypeAlias = Literal["fp16", "bf16", "fp32"]
# "bfloat16" is DeepSpeed's old name; it is read where "bf16" is absent.
HALF = ("fp16", "bf16")
_OLD_BF16 = "bfloat16"


def with_precision(
    config: Mapping[str, Any], precision: Precision, sections: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The config with exactly the section of `precision` enabled, none of them for fp32.

    Keys that the config already has in that section are kept; `sections` gives the rest. A
    section of the other precision stays where it stood, switched off.
    """
    changed = dict(config)
    for name in (*HALF, _OLD_BF16):
        if isinstance(changed.get(name), Mapping):
            changed[name] = {**changed[name], "enabled": False}
    if precision in HALF:
        old = precision == "bf16" and _OLD_BF16 in changed and precision not in changed
        name = _OLD_BF16 if old else precision
        present = changed.get(name)
        kept = present if isinstance(present, Mapping) else {}
        changed[name] = {**sections.get(precision, {}), **kept, "enabled": True}
    return changed


def with_auto_precision(
    config: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The config with both sections present and `enabled` left for the HF Trainer to fill."""
    auto = {name: {**sections.get(name, {}), "enabled": "auto"} for name in HALF}
    return {**config, **auto}


def with_explicit_precision(
    config: Mapping[str, Any], precision: Precision, sections: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The config with both sections present and decided.

    Accelerate adds and enables a section that is missing when the script asks for that
    precision; one that is present and off it leaves alone, or refuses to contradict.
    """
    off = {name: {"enabled": False} for name in HALF if name != precision}
    return {**with_precision(config, precision, sections), **off}


def check_precision(config: Mapping[str, Any]) -> None:
    """Raises `ConfigError` where both precisions are enabled, as DeepSpeed does in every rank."""
    enabled = [
        name
        for name in (*HALF, _OLD_BF16)
        if isinstance(config.get(name), Mapping) and config[name].get("enabled") is True
    ]
    if "fp16" in enabled and len(enabled) > 1:
        raise ConfigError(
            f"fp16 and {enabled[1]} are both enabled; DeepSpeed takes one of them",
            hint="choose with --precision fp16, bf16 or fp32, or disable one section",
        )
