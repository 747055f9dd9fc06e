"""Decoders with a mixture of experts: what each family has in a layer."""

from __future__ import annotations

from typing import Any

from zlaunch.memory.family import Family

_BIAS: dict[str, Any] = {"qkv_bias": "attention_bias", "out_bias": "attention_bias"}

MIXTURES: dict[str, Family] = {
    "mixtral": Family(),
    "qwen2_moe": Family(qkv_bias="qkv_bias"),
    "qwen3_moe": Family(**_BIAS, qk_norm="head"),
    "glm4_moe": Family(qkv_bias="attention_bias", qk_norm="head", qk_norm_if="use_qk_norm"),
    "olmoe": Family(**_BIAS, qk_norm="all"),
    "granitemoe": Family(**_BIAS),
    "phimoe": Family(**_BIAS, norm="layer", norm_bias=True, head_bias="lm_head_bias"),
    "gpt_oss": Family(
        **_BIAS, router_bias=True, expert_bias=True, sinks=True, only_eager=True, flash=True
    ),
    "llama4_text": Family(**_BIAS),
    "deepseek_v2": Family(style="deepseek", **_BIAS, mlp_bias="mlp_bias"),
    "deepseek_v3": Family(style="deepseek", **_BIAS),
}
