"""Mixtures of experts: which layers have one, and what it is made of."""

from __future__ import annotations

from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.family import Family
from zlaunch.memory.parts import Parts, intermediate, linear, mlp, times
from zlaunch.memory.shape import Experts


def experts(keys: ConfigKeys) -> Experts | None:
    """The mixture of experts that the config describes, if any."""
    count = keys.optional("num_experts")
    if not count:
        return None
    width = keys.number("moe_intermediate_size", keys.number("intermediate_size", 0))
    width = width or intermediate(keys)
    per_token = keys.number("num_experts_per_tok", min(2, count))
    return Experts(count, per_token, width, _shared(keys, width), _dense_layers(keys))


def _shared(keys: ConfigKeys, width: int) -> int:
    """The width of what every token meets beside its experts."""
    if keys.optional("intermediate_size_mlp"):  # Llama 4
        return keys.number("intermediate_size")
    wide = keys.optional("shared_expert_intermediate_size")
    return wide or keys.optional("n_shared_experts") * width


def _dense_layers(keys: ConfigKeys) -> int:
    """Layers without experts: listed ones, the first ones, and all but every so many-th.

    Counted, not walked through: a config may say any number of layers.
    """
    layers = keys.number("num_hidden_layers")
    listed = keys.numbers("moe_layers")  # Llama 4 lists the others
    if listed is not None:
        return layers - len({i for i in listed if 0 <= i < layers})
    step = keys.number("decoder_sparse_step", keys.number("interleave_moe_layer_step", 1))
    first = min(keys.optional("first_k_dense_replace"), layers)
    dense = keys.numbers("mlp_only_layers") or set()
    sparse = layers // step - first // step
    sparse -= sum(first <= i < layers and (i + 1) % step == 0 for i in dense)
    return layers - sparse


def feed_forward(keys: ConfigKeys, family: Family, layers: int) -> Parts:
    """The MLPs of all layers; experts lie in two tensors a layer, as transformers 5 keeps them."""
    mixture = experts(keys)
    if mixture is None:
        return times(mlp(keys, family, intermediate(keys)), layers)
    hidden, width, count = keys.number("hidden_size"), mixture.intermediate, mixture.count
    parts = [(count * 2 * width * hidden, 1), (count * width * hidden, 1)]
    parts += [(count * 2 * width, 1), (count * hidden, 1)] if family.expert_bias else []
    parts += linear(hidden, count, family.router_bias)
    if mixture.shared_intermediate:
        parts += mlp(keys, family, mixture.shared_intermediate)
        parts += [(hidden, 1)] if keys.optional("shared_expert_intermediate_size") else []
    dense = mixture.dense_layers
    return times(parts, layers - dense) + times(mlp(keys, family, intermediate(keys)), dense)
