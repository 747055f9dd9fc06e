"""The three batch numbers as keys of a ds_config: who fixed them, and which are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from zlaunch.dsconfig.batch import Batch, solve_batch
from zlaunch.dsconfig.overrides import Override
from zlaunch.dsconfig.values import AUTO, number_in, whole
from zlaunch.errors import BatchError, ConfigError
from zlaunch.frozen import frozen

# The field of `Batch` and of `Asked`, and its key in a ds_config.
KEY_OF = {
    "train": "train_batch_size",
    "micro": "train_micro_batch_size_per_gpu",
    "accumulation": "gradient_accumulation_steps",
}


@frozen
class Asked:
    """The batch numbers that the user fixed for this run; `None` where nothing was said."""

    train: int | None = None
    micro: int | None = None
    accumulation: int | None = None


def asked_numbers(
    *,
    train: int | None,
    micro: int | None,
    accumulation: int | None,
    overrides: Sequence[Override],
) -> Asked:
    """What the user fixed, by the batch options or by overrides of the same keys.

    Raises `ConfigError` where the two say different numbers.
    """
    options = {"train": train, "micro": micro, "accumulation": accumulation}
    set_to = {override.key: override.value for override in overrides}
    for field, key in KEY_OF.items():
        value = set_to.get(key)
        if not isinstance(value, int):
            continue
        if options[field] not in (None, value):
            raise ConfigError(
                f'"{key}" is set to {value} and, by the batch options, to {options[field]}',
                hint="say it once",
            )
        options[field] = value
    return Asked(**options)


def data_parallel_size(config: Mapping[str, Any], world_size: int) -> int:
    """The ranks that see different samples: the world, less sequence parallelism.

    DeepSpeed divides its world by `sequence_parallel_size` (`DeepSpeedConfig.__init__`).
    """
    ways = config.get("sequence_parallel_size", 1)
    if not isinstance(ways, int) or ways < 1 or world_size % ways:
        raise BatchError(f"sequence_parallel_size {ways!r} does not divide world size {world_size}")
    return world_size // ways


def solve_recipe(
    config: Mapping[str, Any], recipe: Mapping[str, Any], asked: Asked, ranks: int
) -> Batch:
    """The numbers of a recipe: what is asked for is kept, the recipe's own are defaults.

    `config` is the recipe with overrides, `recipe` without. A recipe that itself names a
    global batch keeps it, unless micro batch and accumulation are both asked for.
    """
    _refuse_auto(config)
    train = asked.train
    if train is None and (asked.micro is None or asked.accumulation is None):
        train = _number(recipe, "train")
    return solve_batch(
        train=train,
        micro=asked.micro,
        accumulation=asked.accumulation,
        world_size=ranks,
        default_micro=_number(recipe, "micro") or 1,
        default_accumulation=_number(recipe, "accumulation") or 1,
    )


def solve_file(config: Mapping[str, Any], asked: Asked, ranks: int) -> Batch:
    """The numbers of the user's own file, all of them kept; the missing ones are solved.

    As DeepSpeed does it (`_set_batch_related_parameters`): with only one of global and micro
    batch, accumulation is 1; with neither there is nothing to go by, and `BatchError` says so.
    """
    given = {**config, **written(asked)}
    _refuse_auto(given)
    train, micro = _number(given, "train"), _number(given, "micro")
    accumulation = _number(given, "accumulation")
    if train is None and micro is None:
        raise BatchError(
            "this ds_config has neither train_batch_size nor train_micro_batch_size_per_gpu",
            hint="write one of them, or give --global-batch or --micro-batch",
        )
    if accumulation is None and (train is None or micro is None):
        accumulation = 1
    return solve_batch(train=train, micro=micro, accumulation=accumulation, world_size=ranks)


def solve_asked(asked: Asked, ranks: int) -> Batch | None:
    """Checks the numbers asked for by themselves; a batch where they settle all three."""
    if asked == Asked():
        return None
    batch = solve_batch(**asdict(asked), world_size=ranks)
    return batch if sum(number is not None for number in asdict(asked).values()) > 1 else None


def written(numbers: Batch | Asked) -> dict[str, int]:
    """The numbers under their ds_config keys; those that are not there are left out."""
    return {KEY_OF[field]: n for field, n in asdict(numbers).items() if n is not None}


def _number(config: Mapping[str, Any], field: str) -> Any:
    """The number in the config; 32.0 and "32" are 32, what is no number is refused later."""
    value = config.get(KEY_OF[field])
    if isinstance(value, str) and (number := number_in(value)) is not None:
        value = number
    return whole(value) or value if isinstance(value, float) else value


def _refuse_auto(config: Mapping[str, Any]) -> None:
    for key in KEY_OF.values():
        if config.get(key) == AUTO:
            raise ConfigError(
                f'"{key}" is "auto", and nobody fills it in a plain DeepSpeed script',
                hint="write a number, give a batch option, or choose the target hf or accelerate",
            )
