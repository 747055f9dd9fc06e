"""The parameters of decoders, as (elements, how many), without embedding and head."""

from __future__ import annotations

from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.experts import feed_forward
from zlaunch.memory.family import Family
from zlaunch.memory.parts import (
    Parts,
    attention,
    family_norm,
    heads,
    intermediate,
    linear,
    norm,
    times,
)


def decoder(keys: ConfigKeys, family: Family) -> Parts:
    """Most decoders."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    parts = times(attention(keys, family), layers) + feed_forward(keys, family, layers)
    norms = 1 if family.parallel and keys.flag(family.parallel) else family.norms
    parts += times(family_norm(hidden, family), norms * layers + 1)
    if family.extra_positions is not None:
        rows = keys.number("max_position_embeddings") + family.extra_positions
        parts += [(rows * hidden, 1)]
    if family.embedding_norm:
        parts += norm(hidden, True)
    projected = keys.optional("word_embed_proj_dim")
    if projected and projected != hidden:  # OPT-350m: a smaller embedding, and a way in and out
        parts += times(linear(hidden, projected, False), 2)
    if not keys.flag("do_layer_norm_before", True):  # it has no last norm
        parts.remove((hidden, 2 * (norms * layers + 1)))
        parts += times(norm(hidden, True), norms * layers)
    return parts


def falcon(keys: ConfigKeys, family: Family) -> Parts:
    """Falcon, whose layers come in three arrangements."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    count, kv_count, size = heads(keys, family)
    bias, new = keys.flag("bias"), keys.flag("new_decoder_architecture")
    if not new:
        kv_count = 1 if keys.flag("multi_query") else count
    norms = keys.number("num_ln_in_parallel_attn", 2) if new else 1
    if not keys.flag("parallel_attn", True):
        norms = 2
    layer = linear(hidden, (count + 2 * kv_count) * size, bias) + linear(hidden, hidden, bias)
    width = intermediate(keys)
    layer += linear(hidden, width, bias) + linear(width, hidden, bias) + norm(hidden, True) * norms
    return times(layer, layers) + norm(hidden, True)


def deepseek(keys: ConfigKeys, family: Family) -> Parts:
    """DeepSeek: latent attention, and experts after the first dense layers."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    count, bias = keys.number("num_attention_heads"), keys.flag("attention_bias")
    rope, nope = keys.number("qk_rope_head_dim"), keys.number("qk_nope_head_dim")
    value, latent = keys.number("v_head_dim"), keys.number("kv_lora_rank")
    layer: Parts = []
    # Present and null means without; only an absent key has the default.
    rank = 0 if keys.table.get("q_lora_rank", 0) is None else keys.optional("q_lora_rank")
    if rank:
        layer += linear(hidden, rank, bias) + norm(rank, False)
        layer += linear(rank, count * (rope + nope), False)
    else:
        layer += linear(hidden, count * (rope + nope), False)
    layer += linear(hidden, latent + rope, bias) + norm(latent, False)
    layer += linear(latent, count * (nope + value), False) + linear(count * value, hidden, bias)
    layer += norm(hidden, False) * 2
    return times(layer, layers) + norm(hidden, False) + feed_forward(keys, family, layers)
