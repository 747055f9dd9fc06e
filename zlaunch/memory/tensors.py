"""The parameters of each style of transformer, as (elements, how many) from its config."""

from __future__ import annotations

from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.family import Family
from zlaunch.memory.shape import Experts

Parts = list[tuple[int, int]]


def linear(inputs: int, outputs: int, bias: bool) -> Parts:
    """A weight, and a bias where there is one."""
    return [(inputs * outputs, 1), *([(outputs, 1)] if bias else [])]


def norm(size: int, bias: bool) -> Parts:
    """A scale, and a shift where there is one."""
    return [(size, 2 if bias else 1)]


def times(parts: Parts, count: int) -> Parts:
    """`count` of each."""
    return [(size, n * count) for size, n in parts]


def said(keys: ConfigKeys, bias: bool | str) -> bool:
    """A bias of a family: always, never, or as the config says."""
    return keys.flag(bias) if isinstance(bias, str) else bias


def heads(keys: ConfigKeys) -> tuple[int, int, int]:
    """Heads, key-value heads, and the size of one."""
    count = keys.number("num_attention_heads")
    size = keys.number("head_dim", keys.number("hidden_size") // count or 1)
    return count, keys.number("num_key_value_heads", count), size


def intermediate(keys: ConfigKeys) -> int:
    """The width inside the MLP; four times the hidden size where nothing is said."""
    return keys.number("intermediate_size", 4 * keys.number("hidden_size"))


def mlp(keys: ConfigKeys, family: Family, width: int) -> Parts:
    """Up and down, with a gate beside the first where the family has one."""
    hidden, bias = keys.number("hidden_size"), said(keys, family.mlp_bias)
    up = times(linear(hidden, width, bias), 2 if family.mlp == "gated" else 1)
    return up + linear(width, hidden, bias)


def attention(keys: ConfigKeys, family: Family) -> Parts:
    """Queries, keys, values, output; and norms of queries and keys where the family has them."""
    hidden = keys.number("hidden_size")
    count, kv_count, size = heads(keys)
    qkv, out = said(keys, family.qkv_bias), said(keys, family.out_bias)
    parts = linear(hidden, count * size, qkv) + times(linear(hidden, kv_count * size, qkv), 2)
    parts += linear(count * size, hidden, out)
    if family.qk_norm == "head" or keys.flag("qk_layernorm"):
        parts += times(norm(size, family.norm_bias), 2)
    elif family.qk_norm == "all":
        parts += norm(count * size, False) + norm(kv_count * size, False)
    return parts


def experts(keys: ConfigKeys) -> Experts | None:
    """The mixture of experts that the config describes, if any."""
    count = keys.optional("num_experts")
    if not count:
        return None
    width = keys.number("moe_intermediate_size", intermediate(keys))
    shared = keys.optional("shared_expert_intermediate_size")
    shared = shared or keys.optional("n_shared_experts") * width
    layers = keys.number("num_hidden_layers")
    only = keys.find("mlp_only_layers")
    dense = set(only) if isinstance(only, list) else set()
    step = keys.number("decoder_sparse_step", 1)
    first = keys.optional("first_k_dense_replace")
    is_dense = [i in dense or (i + 1) % step != 0 or i < first for i in range(min(layers, 10**5))]
    return Experts(count, keys.number("num_experts_per_tok", 2), width, shared, sum(is_dense))


def feed_forward(keys: ConfigKeys, family: Family, layers: int) -> Parts:
    """The MLPs of all layers; experts lie in two tensors a layer, as transformers 5 keeps them."""
    mixture = experts(keys)
    if mixture is None:
        return times(mlp(keys, family, intermediate(keys)), layers)
    hidden, width = keys.number("hidden_size"), mixture.intermediate
    parts = [(mixture.count * 2 * width * hidden, 1), (mixture.count * width * hidden, 1)]
    parts += [(mixture.count * hidden, 1)]  # the router
    if mixture.shared_intermediate:
        parts += mlp(keys, family, mixture.shared_intermediate)
        parts += [(hidden, 1)] if keys.find("shared_expert_intermediate_size") else []
    dense = mixture.dense_layers
    return times(parts, layers - dense) + times(mlp(keys, family, intermediate(keys)), dense)


def decoder(keys: ConfigKeys, family: Family) -> Parts:
    """A decoder without its embedding and head."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    parts = times(attention(keys, family), layers) + feed_forward(keys, family, layers)
    parts += norm(hidden, family.norm_bias) * (family.norms * layers + 1)
    if family.extra_positions is not None:
        rows = keys.number("max_position_embeddings") + family.extra_positions
        parts += [(rows * hidden, 1)]
    if family.embedding_norm:
        parts += norm(hidden, True)
    projected = keys.optional("word_embed_proj_dim")
    if projected and projected != hidden:  # OPT-350m: a smaller embedding, and a way in and out
        parts += times(linear(hidden, projected, False), 2)
        if not keys.flag("do_layer_norm_before", True):
            parts.remove((hidden, 2))
    return parts


def falcon(keys: ConfigKeys, _family: Family) -> Parts:
    """Falcon, whose layers come in three arrangements."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    count, kv_count, size = heads(keys)
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


def encoder(keys: ConfigKeys, family: Family) -> Parts:
    """BERT and its like, without the word embedding and the head."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    layer = attention(keys, family) + mlp(keys, family, intermediate(keys)) + norm(hidden, True) * 2
    parts = times(layer, layers) + norm(hidden, True)
    parts += [(keys.number("max_position_embeddings") * hidden, 1)]
    return [*parts, (keys.optional("type_vocab_size") * hidden, 1)]


def deberta(keys: ConfigKeys, family: Family) -> Parts:
    """DeBERTa-v2: relative positions that are projected like words, and a convolution."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    layer = attention(keys, family) + mlp(keys, family, intermediate(keys)) + norm(hidden, True) * 2
    kinds = relative_kinds(keys)
    if kinds and not keys.flag("share_att_key"):
        layer += times(linear(hidden, hidden, True), kinds)
    parts = times(layer, layers) + norm(hidden, True)
    if keys.flag("position_biased_input", True):
        parts += [(keys.number("max_position_embeddings") * hidden, 1)]
    parts += [(keys.optional("type_vocab_size") * hidden, 1)]
    if keys.flag("relative_attention"):
        parts += [(span(keys) * hidden, 1)]
        parts += norm(hidden, True) if "layer_norm" in keys.word("norm_rel_ebd") else []
    kernel = keys.optional("conv_kernel_size")
    if kernel:
        parts += linear(kernel * hidden, hidden, True) + norm(hidden, True)
    return parts


def relative_kinds(keys: ConfigKeys) -> int:
    """How many kinds of relative attention DeBERTa has: none, c2p, p2c or both."""
    kinds = keys.find("pos_att_type")
    names = kinds.split("|") if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    return len({"c2p", "p2c"} & {str(name).strip() for name in names}) * keys.flag(
        "relative_attention"
    )


def span(keys: ConfigKeys) -> int:
    """Rows of DeBERTa's table of relative positions."""
    buckets = keys.find("position_buckets")
    if isinstance(buckets, int) and buckets > 0:
        return 2 * keys.number("position_buckets")
    most = keys.find("max_relative_positions")
    if isinstance(most, int) and most > 0:
        return 2 * keys.number("max_relative_positions")
    return 2 * keys.number("max_position_embeddings")


def t5(keys: ConfigKeys, _family: Family) -> Parts:
    """T5: an encoder, and a decoder with one attention more a layer."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    decoders = keys.number("num_decoder_layers", layers)
    count, _, size = heads(keys)
    block = times([(hidden * count * size, 1)], 4)
    gate = "gated" in keys.word("feed_forward_proj")
    forward = times([(hidden * intermediate(keys), 1)], 3 if gate else 2)
    table = [(keys.number("relative_attention_num_buckets") * count, 1)]
    parts = times(block + forward + norm(hidden, False) * 2, layers)
    parts += times(times(block, 2) + forward + norm(hidden, False) * 3, decoders)
    return parts + times(table + norm(hidden, False), 2)


STYLES = {
    "decoder": decoder,
    "falcon": falcon,
    "deepseek": deepseek,
    "encoder": encoder,
    "deberta": deberta,
    "t5": t5,
}
