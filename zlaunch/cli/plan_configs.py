"""The configs that `zlaunch plan` counts: each recipe as `run` would render it, and the user's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from zlaunch.cli.recipe_files import recipe_sources, with_own_recipe
from zlaunch.cli.user_files import read_file
from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.overrides import Override, apply_overrides
from zlaunch.dsconfig.recipes import load_recipe, recipe_names
from zlaunch.dsconfig.render import render
from zlaunch.dsconfig.target import Target
from zlaunch.errors import ConfigError
from zlaunch.memory.advice import speed
from zlaunch.memory.settings import Settings, is_half, read_settings

if TYPE_CHECKING:
    from zlaunch.cli.lint_run import Circumstances
    from zlaunch.cli.plan import Question


def recipes_asked(
    asked: Question, names: Sequence[str] | None, changes: Sequence[Override]
) -> tuple[list[tuple[str, Settings]], tuple[str, ...]]:
    """The settings of each recipe, the fastest first; notes on those that are left out.

    `run` refuses a recipe where the changes do not go with it. Raises ConfigError where it
    refuses all that train with DeepSpeed.
    """
    sources = recipe_sources()
    given = dict.fromkeys(names or (() if asked.ds_config else recipe_names(sources)))
    found, refused = [], []
    for name in given:
        config = _rendered(asked, name, changes)
        against = _refusal(asked, name, config) if config is not None and changes else None
        if against is None:
            half = asked.precision != "fp32" if config is None else is_half(config)
            found.append((name, read_settings(config, half=half)))
        else:
            refused.append(against)
    if refused and not any(settings.deepspeed for _, settings in found):
        raise refused[0]
    return sorted(found, key=lambda pair: speed(pair[1])), tuple(_left_out(refused))


def _left_out(refused: Sequence[ConfigError]) -> Iterator[str]:
    for error in refused:
        first = next(line for line in error.message.splitlines() if "error: " in line)
        yield f"left out: {first.strip()}"


def _refusal(asked: Question, name: str, config: dict[str, Any]) -> ConfigError | None:
    from zlaunch.cli.lint_run import lint_config

    try:
        lint_config(config, f"recipe {name}", _around(asked, "plain"))
    except ConfigError as error:
        return error
    return None


def read_own(path: str, changes: Sequence[Override]) -> tuple[Document, dict[str, Any]]:
    """The user's own ds_config: as it is written, and with the changes laid in."""
    from zlaunch.cli.ds_config import refuse_foreign  # who has no file does not pay
    from zlaunch.dsconfig.source import read_source

    document = read_source(read_file(path, f"--ds-config {path}", error=ConfigError), path)
    refuse_foreign(path, document)
    table = document.value if isinstance(document.value, dict) else {}
    return document, apply_overrides(table, changes)


def micro_of(own: tuple[Document, dict[str, Any]] | None) -> int | None:
    """The micro batch that the user's own ds_config says."""
    found = None if own is None else own[1].get("train_micro_batch_size_per_gpu")
    return found if type(found) is int and found > 0 else None


def settings_of_own(
    asked: Question,
    path: str,
    own: tuple[Document, dict[str, Any]],
    changes: Sequence[Override],
) -> Settings:
    """Its settings, once it is looked at as before a run."""
    from zlaunch.cli.lint_run import lint_file
    from zlaunch.dsconfig.lint_auto import waits_for_a_reader

    document, config = own
    if not {"train_batch_size", "train_micro_batch_size_per_gpu"} & config.keys():
        config = {**config, "train_micro_batch_size_per_gpu": asked.work.micro_batch}
    target: Target = "hf" if waits_for_a_reader(config) else "plain"
    lint_file(document, config, changes, path, _around(asked, target))
    return read_settings(config, half=is_half(config))


def _around(asked: Question, target: Target) -> Circumstances:
    from zlaunch.cli.lint_run import Circumstances

    return Circumstances(
        env=os.environ,
        python=None,
        target=target,
        world_size=asked.cluster.ranks,
        cpu=False,
        bf16=True,
        here=False,
    )


def _rendered(asked: Question, name: str, changes: Sequence[Override]) -> dict[str, Any] | None:
    """None for a recipe that trains without DeepSpeed."""
    name, sources = with_own_recipe(name, recipe_sources())
    recipe = load_recipe(name, sources)
    if not recipe.deepspeed:
        return None
    return render(
        recipe.config,
        precisions=recipe.precisions,
        precision=asked.precision,
        target="plain",
        world_size=asked.cluster.ranks,
        overrides=changes,
        micro=asked.work.micro_batch,
        accumulation=asked.accumulate,
    ).config
