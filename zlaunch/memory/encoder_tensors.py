"""The parameters of encoders of text, as (elements, how many), without word embedding and head."""

from __future__ import annotations

from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.family import Family
from zlaunch.memory.parts import Parts, attention, intermediate, linear, mlp, norm, times


def embedding_width(keys: ConfigKeys) -> int:
    """The width of the word embedding; ELECTRA's and ALBERT's is smaller than the layers'."""
    return keys.optional("embedding_size") or keys.number("hidden_size")


def _layer(keys: ConfigKeys, family: Family) -> Parts:
    hidden = keys.number("hidden_size")
    layer = attention(keys, family) + mlp(keys, family, intermediate(keys)) + norm(hidden, True) * 2
    if family.global_attention:
        layer += times(linear(hidden, hidden, True), 3)
    return layer


def _tables(keys: ConfigKeys, width: int) -> Parts:
    parts = [(keys.number("max_position_embeddings") * width, 1)]
    return [*parts, (keys.optional("type_vocab_size") * width, 1), *norm(width, True)]


def encoder(keys: ConfigKeys, family: Family) -> Parts:
    """BERT and its like."""
    hidden, width = keys.number("hidden_size"), embedding_width(keys)
    parts = times(_layer(keys, family), keys.number("num_hidden_layers")) + _tables(keys, width)
    if width != hidden:
        parts += linear(width, hidden, True)
    buckets = keys.optional("relative_attention_num_buckets")  # MPNet
    return [*parts, (buckets * keys.number("num_attention_heads"), 1)]


def albert(keys: ConfigKeys, family: Family) -> Parts:
    """ALBERT, whose layers share their parameters in groups."""
    hidden, width = keys.number("hidden_size"), embedding_width(keys)
    groups = keys.number("num_hidden_groups", 1) * keys.number("inner_group_num", 1)
    return times(_layer(keys, family), groups) + _tables(keys, width) + linear(width, hidden, True)


def deberta(keys: ConfigKeys, family: Family) -> Parts:
    """DeBERTa-v2: relative positions that are projected like words, and a convolution."""
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    layer = _layer(keys, family)
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
