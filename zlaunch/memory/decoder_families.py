"""Decoders: what each family has in a layer (transformers 5.24, `modeling_*.py`)."""

from __future__ import annotations

from typing import Any

from zlaunch.memory.family import BIASED, Family

_LLAMA_BIAS: dict[str, Any] = {
    "qkv_bias": "attention_bias",
    "out_bias": "attention_bias",
    "mlp_bias": "mlp_bias",
}
_BIAS: dict[str, Any] = {"qkv_bias": "attention_bias", "out_bias": "attention_bias"}
_LAYER: dict[str, Any] = {"norm": "layer", "norm_bias": True}

DECODERS: dict[str, Family] = {
    "llama": Family(**_LLAMA_BIAS),
    "granite": Family(**_LLAMA_BIAS),
    "smollm3": Family(**_LLAMA_BIAS),
    "seed_oss": Family(
        qkv_bias="attention_bias", out_bias="attention_out_bias", mlp_bias="mlp_bias"
    ),
    "ernie4_5": Family(qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias"),
    "arcee": Family(**_LLAMA_BIAS, mlp="fused"),
    "mistral": Family(),
    "qwen2": Family(qkv_bias=True),
    "qwen3": Family(**_BIAS, qk_norm="head"),
    "hunyuan_v1_dense": Family(**_BIAS, qk_norm="head"),
    "exaone4": Family(qk_norm="head"),
    "glm": Family(qkv_bias="attention_bias", fused_rotary=True),
    "glm4": Family(qkv_bias="attention_bias", norms=4),
    "gemma": Family(norm="wide", **_BIAS),
    "gemma2": Family(norm="wide", norms=4, **_BIAS, only_eager=True, flash=True),
    "gemma3_text": Family(norm="wide", norms=4, qk_norm="head", **_BIAS),
    "phi": Family(
        **BIASED,
        norms=1,
        mlp="python",
        head_bias=True,
        qk_norm="head",
        qk_norm_if="qk_layernorm",
    ),
    "phi3": Family(fused_rotary=True),
    "stablelm": Family(
        **_LAYER,
        qkv_bias="use_qkv_bias",
        parallel="use_parallel_residual",
        qk_norm="head",
        qk_norm_if="qk_layernorm",
        qk_norm_each=True,
    ),
    "persimmon": Family(**BIASED, mlp="fused", qk_norm="head", qk_norm_if="qk_layernorm"),
    "nemotron": Family(**_LAYER, **_BIAS, mlp="fused", mlp_bias="mlp_bias"),
    "gpt2": Family(**BIASED, mlp="python", extra_positions=0, half_softmax=True),
    "gpt_bigcode": Family(
        **BIASED, mlp="fused", extra_positions=0, half_softmax=True, multi_query=True
    ),
    "gpt_neo": Family(
        **_LAYER,
        out_bias=True,
        mlp="python",
        mlp_bias=True,
        extra_positions=0,
        only_eager=True,
        flash=True,
    ),
    "gptj": Family(**_LAYER, norms=1, mlp="python", mlp_bias=True, head_bias=True),
    "codegen": Family(**_LAYER, norms=1, mlp="python", mlp_bias=True, head_bias=True),
    "gpt_neox": Family(**_LAYER, **_BIAS, mlp="fused", mlp_bias=True, fused_rotary=True),
    "falcon": Family(style="falcon", half_softmax=True, **_LAYER, mlp="fused"),
    "mpt": Family(norm="layer", mlp="fused", only_eager=True),
    "opt": Family(**BIASED, mlp="relu", extra_positions=2),
    "xglm": Family(**BIASED, mlp="fused", only_eager=True),
    "biogpt": Family(**BIASED, mlp="fused", extra_positions=2),
    "bloom": Family(**BIASED, mlp="fused", embedding_norm=True, fused_rotary=True, only_eager=True),
    "starcoder2": Family(
        **_LAYER, qkv_bias="use_bias", out_bias="use_bias", mlp="fused", mlp_bias="use_bias"
    ),
    "cohere": Family(
        norm="wide", norms=1, **_BIAS, qk_norm="head", qk_norm_if="use_qk_norm", qk_norm_each=True
    ),
    "cohere2": Family(norm="wide", norms=1, **_BIAS),
    "olmo": Family(norm="layer", affine=False, **_BIAS),
    "olmo2": Family(norm="wide", qk_norm="all", **_BIAS),
    "olmo3": Family(norm="wide", qk_norm="all", **_BIAS),
}
