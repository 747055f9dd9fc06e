"""The ds_config of a run: reads recipes and the user's file, and renders for the target."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Protocol

from zlaunch.cli.recipe_files import recipe_sources, with_own_recipe
from zlaunch.cli.request import Precision, Request
from zlaunch.cli.user_files import read_file
from zlaunch.dsconfig.batch import Batch
from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.overrides import parse_override
from zlaunch.dsconfig.recipes import load_recipe
from zlaunch.dsconfig.render import Rendered, as_asked, render
from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen
from zlaunch.spec.environment import DeviceKind, Target
from zlaunch.system.cpu_features import fp16_on_cpus

DEFAULT_RECIPE = "zero2"


class DevicesUsed(Protocol):
    """What has to be known of the devices."""

    @property
    def kind(self) -> DeviceKind:
        """GPUs or CPUs."""

    @property
    def bf16(self) -> bool:
        """Whether all of them compute in it."""


@frozen
class DsConfig:
    """What the workers get, and how to speak of it; `config` None: no DeepSpeed."""

    name: str
    config: Mapping[str, Any] | None = None
    batch: Batch | None = None
    precision: Precision | None = None
    notes: tuple[str, ...] = ()


def make_ds_config(
    request: Request,
    target: Target,
    world_size: int,
    devices: DevicesUsed,
    env: Mapping[str, str],
) -> DsConfig:
    """Return the rendered ds_config; the user's own file is linted first.

    Raises ConfigError or BatchError with the place of what is wrong.
    """
    if target != "plain" and not request.wants_deepspeed:
        kind = {"hf": "Trainer", "accelerate": "Accelerate"}[target]
        note = f"this {kind} script decides for itself; --recipe {DEFAULT_RECIPE} turns it to ZeRO"
        return DsConfig("no DeepSpeed", notes=(note,))
    if request.ds_config is not None:
        made = _from_file(request, request.ds_config, target, world_size, devices, env)
    else:
        made = _from_recipe(request, target, world_size, devices)
    if devices.kind == "cpu" and target == "plain" and _is_fp16(made.config):
        _refuse_fp16_on_cpus(request)
    return made


def _refuse_fp16_on_cpus(request: Request) -> None:
    if request.many is None and fp16_on_cpus() is False:
        raise ConfigError(
            "DeepSpeed cannot train in fp16 on these CPUs", hint="--precision bf16, or fp32"
        )


def _is_fp16(config: Mapping[str, Any] | None) -> bool:
    section = (config or {}).get("fp16")
    return isinstance(section, Mapping) and section.get("enabled") is True


def _from_file(
    request: Request,
    path: str,
    target: Target,
    world_size: int,
    devices: DevicesUsed,
    env: Mapping[str, str],
) -> DsConfig:
    from zlaunch.cli.lint_run import circumstances, lint_file  # who has no file does not pay
    from zlaunch.dsconfig.source import read_source

    text = read_file(path, f"--ds-config {path}", error=ConfigError)
    document = read_source(text, path)
    refuse_foreign(path, document)
    base = document.value if isinstance(document.value, dict) else {}
    precisions = load_recipe(DEFAULT_RECIPE, recipe_sources()).precisions
    overrides = [parse_override(text) for text in request.overrides]
    config = as_asked(
        base,
        precisions=precisions,
        precision=request.precision,
        overrides=overrides,
        train=request.global_batch,
        micro=request.micro_batch,
        accumulation=request.accumulate,
    )
    around = circumstances(request, target, world_size, devices, env)
    notes = lint_file(document, config, overrides, path, around)
    rendered = _render(request, base, precisions, request.precision, target, world_size, True)
    notes = (*rendered.notes, *notes)
    return DsConfig(path, rendered.config, rendered.batch, request.precision, notes)


def refuse_foreign(path: str, document: Document) -> None:
    """DeepSpeed reads YAML as hjson, and something else than was meant: raises ConfigError."""
    from zlaunch.dsconfig.accelerate_file import is_accelerate_file

    accelerate = is_accelerate_file(document.value)
    if accelerate or path.endswith((".yaml", ".yml")):
        what = "Accelerate's configuration" if accelerate else "YAML"
        raise ConfigError(
            f"--ds-config {path} is {what}, not a ds_config",
            hint=f"zlaunch config import {shlex.quote(path)} -o ds_config.json",
        )


def _from_recipe(
    request: Request, target: Target, world_size: int, devices: DevicesUsed
) -> DsConfig:
    name, sources = with_own_recipe(request.recipe or DEFAULT_RECIPE, recipe_sources())
    recipe = load_recipe(name, sources)
    if not recipe.deepspeed:
        rendered = _render(request, None, {}, None, target, world_size, False)
        return DsConfig(name, precision=request.precision, notes=rendered.notes)
    if target == "hf":  # the Trainer's own arguments decide on the precision
        rendered = _render(
            request, recipe.config, recipe.precisions, request.precision, target, world_size, False
        )
        return DsConfig(name, rendered.config, rendered.batch, None, rendered.notes)
    precision = request.precision or ("bf16" if devices.bf16 else "fp16")
    rendered = _render(
        request, recipe.config, recipe.precisions, precision, target, world_size, False
    )
    notes = rendered.notes
    if target == "accelerate" and devices.kind == "cpu":
        notes += ("Accelerate does not enter DeepSpeed without a GPU: this trains as DDP",)
    return DsConfig(name, rendered.config, rendered.batch, precision, notes)


def _render(
    request: Request,
    base: Mapping[str, Any] | None,
    precisions: Mapping[str, Mapping[str, Any]],
    precision: Precision | None,
    target: Target,
    world_size: int,
    from_file: bool,
) -> Rendered:
    return render(
        base,
        precisions=precisions,
        precision=precision,
        target=target,
        world_size=world_size,
        overrides=[parse_override(text) for text in request.overrides],
        train=request.global_batch,
        micro=request.micro_batch,
        accumulation=request.accumulate,
        from_file=from_file,
    )
