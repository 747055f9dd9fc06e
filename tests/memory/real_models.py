"""Real models of transformers without memory, and the configs that they are made from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

from transformers.models.auto import configuration_auto, modeling_auto  # noqa: E402

# Without these the config classes make no model: they leave out what the model then needs.
NEEDED: dict[str, dict[str, Any]] = {
    "nemotron": {"num_key_value_heads": 8},
    "hunyuan_v1_dense": {"head_dim": 128},
    "ministral": {"head_dim": 128},
}
_LAYERS = (
    *("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    *("decoder_layers", "num_decoder_layers"),
)
_NAMES = dir(transformers)  # thousands, and slow to list
_NO_PARAMETERS = {
    *("use_cache", "output_attentions", "output_hidden_states", "return_dict"),
    *("is_encoder_decoder", "is_decoder", "output_router_logits"),
}


def config_class(kind: str) -> Any:
    """The config class of a model_type, None where this transformers has none."""
    name = configuration_auto.CONFIG_MAPPING_NAMES.get(kind)
    return getattr(transformers, name) if name else None


def small(kind: str, **changes: Any) -> Any:
    """A config of two layers."""
    config = config_class(kind)(**{**NEEDED.get(kind, {}), **changes})
    for key in _LAYERS:
        if isinstance(getattr(config, key, None), int):
            with contextlib.suppress(AttributeError, NotImplementedError):
                setattr(config, key, 2)
    if isinstance(getattr(config, "moe_layers", None), list):
        config.moe_layers = [1]
    for key in ("layer_types", "mlp_layer_types"):
        if isinstance(getattr(config, key, None), list):
            setattr(config, key, getattr(config, key)[:2])
    return config


def parameters(config: Any, name: str) -> list[int]:
    """Elements of each parameter of the model `name`."""
    config.architectures = [name]
    with torch.device("meta"):
        return [parameter.numel() for parameter in getattr(transformers, name)(config).parameters()]


def heads(kind: str) -> list[str]:
    """The classes of a family: with each of its heads, and without one."""
    if kind.endswith("_text"):  # the text part of a model of images
        tables = (
            modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
            modeling_auto.MODEL_MAPPING_NAMES,
        )
        return [table[kind] for table in tables if kind in table]
    stem = config_class(kind).__name__.removesuffix("Config")
    plain = ("Model", "LMHeadModel", "EncoderModel", "MTModel", "DoubleHeadsModel")
    rests = ((name, name.removeprefix(stem)) for name in _NAMES if name != stem)
    return [
        name
        for name, rest in rests
        if name.startswith(stem) and (rest in plain or rest.startswith("For"))
    ]


def variants(kind: str) -> Iterator[tuple[str, Any]]:
    """Configs of this family with one switch turned, or one number doubled."""
    for key, changed in _changes(config_class(kind)(**NEEDED.get(kind, {}))):
        with contextlib.suppress(Exception):  # the class itself refuses it
            config = small(kind, **{key: changed})
            if getattr(config, key, None) == changed:
                yield f"{key}={changed}", config


def inner_variants(kind: str) -> Iterator[tuple[str, Any]]:
    """The same for the text part and the tower of a model of images."""
    short = {"text_config": {"num_hidden_layers": 2}, "vision_config": {}}
    for section, usual in short.items():
        for key, changed in _changes(getattr(config_class(kind)(), section)):
            with contextlib.suppress(Exception):
                changes = {**short, section: {**usual, key: changed}}
                yield f"{section}.{key}={changed}", config_class(kind)(**changes)


def _changes(config: Any) -> Iterator[tuple[str, Any]]:
    for key, value in config.to_dict().items():
        if key in _NO_PARAMETERS or key.endswith("_id") or "layers" in key or key == "n_layer":
            continue
        if isinstance(value, bool):
            yield key, not value
        elif isinstance(value, int) and value > 0:
            yield key, 2 * value
