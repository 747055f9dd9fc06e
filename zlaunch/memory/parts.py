"""The parts that layers are made of, as (elements, how many)."""

from __future__ import annotations

from typing import TypeAlias

from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.family import Family

Parts: TypeAlias = list[tuple[int, int]]


def linear(inputs: int, outputs: int, bias: bool) -> Parts:
    """A weight, and a bias where there is one."""
    return [(inputs * outputs, 1), *([(outputs, 1)] if bias else [])]


def norm(size: int, bias: bool) -> Parts:
    """A scale, and a shift where there is one."""
    return [(size, 2 if bias else 1)]


def family_norm(size: int, family: Family) -> Parts:
    """A norm of this family."""
    return norm(size, family.norm_bias) if family.affine else []


def times(parts: Parts, count: int) -> Parts:
    """`count` of each."""
    return [(size, n * count) for size, n in parts]


def said(keys: ConfigKeys, bias: bool | str) -> bool:
    """A bias of a family: always, never, or as the config says."""
    return keys.flag(bias) if isinstance(bias, str) else bias


def heads(keys: ConfigKeys, family: Family) -> tuple[int, int, int]:
    """Heads, key-value heads, and the size of one."""
    count = keys.number("num_attention_heads")
    size = keys.number("head_dim", keys.number("hidden_size") // count or 1)
    if family.multi_query:
        return count, 1 if keys.flag("multi_query", True) else count, size
    return count, keys.number("num_key_value_heads", count), size


def intermediate(keys: ConfigKeys) -> int:
    """The width inside the MLP; four times the hidden size where nothing is said."""
    wide = keys.optional("intermediate_size_mlp")  # Llama 4's layers without experts
    ratio = keys.number("mlp_ratio", 4)
    return wide or keys.number("intermediate_size", ratio * keys.number("hidden_size"))


def mlp(keys: ConfigKeys, family: Family, width: int) -> Parts:
    """Up and down, with a gate beside the first where the family has one."""
    hidden, bias = keys.number("hidden_size"), said(keys, family.mlp_bias)
    up = times(linear(hidden, width, bias), 2 if family.mlp == "gated" else 1)
    return up + linear(width, hidden, bias)


def norms_qk(keys: ConfigKeys, family: Family) -> bool:
    """Whether queries and keys are normalized."""
    if not family.qk_norm:
        return False
    return keys.flag(family.qk_norm_if) if family.qk_norm_if else True


def attention(keys: ConfigKeys, family: Family) -> Parts:
    """Queries, keys, values, output; and norms of queries and keys where the family has them."""
    hidden = keys.number("hidden_size")
    count, kv_count, size = heads(keys, family)
    qkv, out = said(keys, family.qkv_bias), said(keys, family.out_bias)
    parts = linear(hidden, count * size, qkv) + times(linear(hidden, kv_count * size, qkv), 2)
    parts += linear(count * size, hidden, out)
    if family.sinks:
        parts += [(count, 1)]
    if not norms_qk(keys, family):
        return parts
    if family.qk_norm_each:  # StableLM's norms of each head have no shift
        return parts + times(norm(size, False), count + kv_count)
    if family.qk_norm == "head":
        return parts + times(norm(size, family.norm_bias), 2)
    return parts + norm(count * size, False) + norm(kv_count * size, False)
