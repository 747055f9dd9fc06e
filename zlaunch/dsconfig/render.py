"""Rendering: a recipe or the user's own file becomes the ds_config of one run."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zlaunch.dsconfig.batch import Batch
from zlaunch.dsconfig.batchkeys import (
    Asked,
    asked_numbers,
    data_parallel_size,
    solve_asked,
    solve_file,
    solve_recipe,
    written,
)
from zlaunch.dsconfig.keypath import Path, kind_of
from zlaunch.dsconfig.notes import file_notes, recipe_notes
from zlaunch.dsconfig.overrides import Override, apply_overrides
from zlaunch.dsconfig.precision import Precision, check_precision, with_precision
from zlaunch.dsconfig.target import Target, needs_client_optimizer, shape_recipe
from zlaunch.dsconfig.values import number_in, whole
from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen

# What a reader looks for first stands first; other keys follow in the recipe's order.
_ORDER = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "fp16",
    "bf16",
    "zero_optimization",
    "optimizer",
    "scheduler",
    "steps_per_print",
    "log_level",
    "wall_clock_breakdown",
)


@frozen
class Rendered:
    """A config for one run; `None` where the recipe trains without DeepSpeed.

    `batch` is there when all three numbers are settled. `notes` are sentences for the user.
    """

    config: dict[str, Any] | None
    batch: Batch | None
    notes: tuple[str, ...]


def render(
    base: Mapping[str, Any] | None,
    *,
    precisions: Mapping[str, Mapping[str, Any]],
    precision: Precision | None,
    target: Target,
    world_size: int,
    overrides: Sequence[Override] = (),
    train: int | None = None,
    micro: int | None = None,
    accumulation: int | None = None,
    from_file: bool = False,
    data_parallel: int | None = None,
) -> Rendered:
    """The ds_config for one run on `world_size` ranks; raises `ConfigError` and `BatchError`.

    `base` is a recipe's config, or the user's own (`from_file`), where only missing batch
    numbers for the target plain are added; `None` is a recipe without DeepSpeed. `precision`
    `None` leaves it alone. `train`, `micro`, `accumulation` are what the user fixed, in samples
    and passes. `data_parallel`: the ranks that see different samples, if not all of them do.
    """
    asked = asked_numbers(train=train, micro=micro, accumulation=accumulation, overrides=overrides)
    if base is None:
        return _without_deepspeed(asked, overrides)
    if from_file:
        shaped = with_precision(base, precision, precisions) if precision else base
    else:
        shaped = shape_recipe(base, target, precision, precisions)
    config = apply_overrides(shaped, overrides)
    check_precision(config)
    _check_stage(config)
    ranks = data_parallel or data_parallel_size(config, world_size)
    batch = _solve(base, config, asked, target, ranks, from_file=from_file)
    config.update(written(batch or asked))
    if not from_file:
        _complete(config, target)
        config = _ordered(config)
    notes = file_notes(config, target) if from_file else recipe_notes(config, target, precision)
    return Rendered(whole_numbers(config), batch, notes)


def as_asked(
    base: Mapping[str, Any],
    *,
    precisions: Mapping[str, Mapping[str, Any]],
    precision: Precision | None,
    overrides: Sequence[Override],
    train: int | None,
    micro: int | None,
    accumulation: int | None,
) -> dict[str, Any]:
    """The user's own config with the options laid in and nothing solved: what lint looks at."""
    asked = asked_numbers(train=train, micro=micro, accumulation=accumulation, overrides=overrides)
    shaped = with_precision(base, precision, precisions) if precision else base
    return {**apply_overrides(shaped, overrides), **written(asked)}


def to_json(config: Mapping[str, Any]) -> str:
    """The config as JSON text that ends with a newline.

    Raises `ConfigError` for what JSON does not have: NaN, infinity, a date of TOML.
    """
    for path, value in _leaves(config, ""):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{path} is {value}: JSON has no such number", hint="write another")
        if value is not None and not isinstance(value, (str, int, float)):
            words = f"{path} is {value}, and JSON has no such value"
            raise ConfigError(words, hint="put it in quotes")
    return json.dumps(config, indent=4, allow_nan=False) + "\n"


def _leaves(value: Any, above: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{above}.{key}" if above else str(key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{above}.{index}")
    else:
        yield above, value


def _check_stage(config: Mapping[str, Any]) -> None:
    zero = config.get("zero_optimization")
    stage = zero.get("stage", 0) if isinstance(zero, Mapping) else 0
    if stage not in (0, 1, 2, 3, "auto"):
        raise ConfigError(f"zero_optimization.stage is {stage}: ZeRO has the stages 0 to 3")


def _without_deepspeed(asked: Asked, overrides: Sequence[Override]) -> Rendered:
    if overrides or asked != Asked():
        what = f"--set {overrides[0].key}" if overrides else "a batch option"
        raise ConfigError(
            f"this recipe trains without DeepSpeed, so {what} has no ds_config to go into",
            hint="give it to the script, or choose a recipe with DeepSpeed",
        )
    return Rendered(None, None, ())


def _solve(
    base: Mapping[str, Any],
    config: Mapping[str, Any],
    asked: Asked,
    target: Target,
    ranks: int,
    *,
    from_file: bool,
) -> Batch | None:
    if target == "plain":
        if from_file:
            return solve_file(config, asked, ranks)
        return solve_recipe(config, base, asked, ranks)
    batch = solve_asked(asked, ranks)
    return None if from_file else batch


def _complete(config: dict[str, Any], target: Target) -> None:
    """Adds what the target needs once overrides are in, and refuses half a section.

    An optimizer or scheduler without a type was begun by an override: DeepSpeed would ignore
    it, and the reader of the target would stumble over it.
    """
    for section in ("optimizer", "scheduler"):
        if section in config and "type" not in config[section]:
            raise ConfigError(
                f'"{section}" is set without its type; the target {target} has no {section}'
                " section of its own",
                hint=f"set it in the script, or add --set {section}.type=NAME",
            )
    if target == "accelerate" and needs_client_optimizer(config):
        config.setdefault("zero_force_ds_cpu_optimizer", False)


def _ordered(config: Mapping[str, Any]) -> dict[str, Any]:
    first = {key: config[key] for key in _ORDER if key in config}
    return {**first, **config}


def whole_numbers(config: Mapping[str, Any], above: Path = ()) -> dict[str, Any]:
    """A copy in which keys that hold numbers do: 5e8 is a float to JSON, "5e8" a text."""
    result: dict[str, Any] = {}
    for key, value in config.items():
        path = (*above, key)
        if isinstance(value, Mapping):
            result[key] = whole_numbers(value, path)
        elif kind_of(path) in ("int", "float") and isinstance(value, (float, str)):
            result[key] = _number(value, path)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _number(value: float | str, path: Path) -> float | str:
    """The number that a key holds as text or with a point; what is none is left as it is."""
    number = value if isinstance(value, float) else number_in(value)
    if number is None:
        return value
    integer = whole(number) if kind_of(path) == "int" else None
    return number if integer is None else integer
