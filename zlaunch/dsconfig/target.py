"""Targets: who reads the config, and the keys which that reader fills or refuses.

    plain        deepspeed.initialize: every value is written out
    hf           transformers.Trainer: "auto" where it fills values from TrainingArguments
    accelerate   accelerate.Accelerator: "auto" where prepare() fills values

Taken from `HfTrainerDeepSpeedConfig.trainer_config_process` of transformers 5.24 and
`Accelerator._prepare_deepspeed` of accelerate 1.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from zlaunch.dsconfig.batchkeys import KEY_OF
from zlaunch.dsconfig.precision import (
    Precision,
    with_auto_precision,
    with_explicit_precision,
    with_precision,
)
from zlaunch.dsconfig.values import AUTO

Target: TypeAlias = Literal["plain", "hf", "accelerate"]

# Both fill these four, from TrainingArguments or from the script's loaders and Accelerator().
_FILLED = (*KEY_OF.values(), "gradient_clipping")
_TRAINER_FILLS = ("lr", "betas", "eps", "weight_decay")


def shape_recipe(
    config: Mapping[str, Any],
    target: Target,
    precision: Precision | None,
    sections: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """A recipe's config in the form its target takes; overrides and numbers come after.

    `precision=None` leaves the precision as the recipe has it.
    """
    if target == "hf":
        return _for_trainer(config, sections)
    if target == "accelerate":
        return _for_accelerate(config, precision, sections)
    return with_precision(config, precision, sections) if precision else dict(config)


def needs_client_optimizer(config: Mapping[str, Any]) -> bool:
    """Whether optimizer states are offloaded while the script makes the optimizer.

    DeepSpeed refuses that pair unless `zero_force_ds_cpu_optimizer` is false; with it,
    Accelerate also leaves the script's optimizer as it is.
    """
    zero = config.get("zero_optimization")
    offload = zero.get("offload_optimizer") if isinstance(zero, Mapping) else None
    device = offload.get("device") if isinstance(offload, Mapping) else None
    return device not in (None, "none") and "optimizer" not in config


def _for_trainer(
    config: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """`auto` exactly where the Trainer fills it; a number there would have to equal its argument.

    The optimizer stays, so that offload gets DeepSpeed's CPU optimizer. The scheduler goes:
    the Trainer's own (`lr_scheduler_type`, `warmup_steps`) stays in charge.
    """
    shaped = {key: value for key, value in config.items() if key != "scheduler"}
    shaped.update(dict.fromkeys(_FILLED, AUTO))
    optimizer = shaped.get("optimizer")
    if isinstance(optimizer, Mapping):
        params = {
            key: AUTO if key in _TRAINER_FILLS else value
            for key, value in optimizer.get("params", {}).items()
        }
        shaped["optimizer"] = {**optimizer, "params": params}
    return with_auto_precision(shaped, sections)


def _for_accelerate(
    config: Mapping[str, Any],
    precision: Precision | None,
    sections: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """No optimizer and no scheduler: an unchanged script makes its own, and both is refused."""
    shaped = {key: value for key, value in config.items() if key not in ("optimizer", "scheduler")}
    shaped.update(dict.fromkeys(_FILLED, AUTO))
    return with_explicit_precision(shaped, precision, sections) if precision else shaped
