"""The families of models: what each has in a layer, and the defaults of its config.

A config.json holds only what differs from its family's defaults, so these are needed to read
one. Written from transformers 5.24 (`configuration_*.py`, `modeling_*.py`); the tests count
the parameters of real models of each family against it.
"""

from __future__ import annotations

from typing import Any

from zlaunch.memory.encoder_families import ENCODERS
from zlaunch.memory.family import BIASED, Family

_LLAMA = {"vocab_size": 32000, "tie_word_embeddings": False, "max_position_embeddings": 2048}
_QWEN = {"vocab_size": 151936, "tie_word_embeddings": False, "max_position_embeddings": 32768}
_GEMMA = {"vocab_size": 256000, "tie_word_embeddings": True, "max_position_embeddings": 8192}
_LLAMA_BIAS: dict[str, Any] = {
    "qkv_bias": "attention_bias",
    "out_bias": "attention_bias",
    "mlp_bias": "mlp_bias",
}


FAMILIES: dict[str, Family] = {
    **ENCODERS,
    "llama": Family(**_LLAMA_BIAS, defaults={**_LLAMA, "intermediate_size": 11008}),
    "granite": Family(**_LLAMA_BIAS, defaults=_LLAMA),
    "smollm3": Family(**_LLAMA_BIAS, defaults={**_LLAMA, "tie_word_embeddings": True}),
    "mistral": Family(defaults={**_LLAMA, "num_key_value_heads": 8}),
    "qwen2": Family(qkv_bias=True, defaults=_QWEN),
    "qwen3": Family(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        qk_norm="head",
        defaults={**_QWEN, "head_dim": 128},
    ),
    "gemma": Family(norm="wide", defaults={**_GEMMA, "head_dim": 256}),
    "gemma2": Family(norm="wide", norms=4, defaults={**_GEMMA, "head_dim": 256}),
    "gemma3_text": Family(
        norm="wide",
        norms=4,
        qk_norm="head",
        defaults={**_GEMMA, "vocab_size": 262208, "head_dim": 256, "num_key_value_heads": 4},
    ),
    "phi": Family(
        **BIASED,
        norms=1,
        mlp="python",
        head_bias=True,
        defaults={**_LLAMA, "vocab_size": 51200, "hidden_act": "gelu_new"},
    ),
    "phi3": Family(
        fused_rotary=True,
        defaults={**_LLAMA, "vocab_size": 32064, "max_position_embeddings": 4096},
    ),
    "gpt2": Family(
        **BIASED,
        mlp="python",
        extra_positions=0,
        half_softmax=True,
        defaults={
            "vocab_size": 50257,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "max_position_embeddings": 1024,
            "tie_word_embeddings": True,
            "activation_function": "gelu_new",
            "resid_pdrop": 0.1,
            "attn_pdrop": 0.1,
        },
    ),
    "gptj": Family(
        norm="layer",
        norm_bias=True,
        norms=1,
        mlp="python",
        mlp_bias=True,
        head_bias=True,
        defaults={
            "vocab_size": 50400,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
            "activation_function": "gelu_new",
        },
    ),
    "gpt_neox": Family(
        norm="layer",
        norm_bias=True,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp="fused",
        mlp_bias=True,
        fused_rotary=True,
        defaults={
            "vocab_size": 50432,
            "max_position_embeddings": 2048,
            "attention_bias": True,
            "tie_word_embeddings": False,
            "hidden_act": "gelu",
        },
    ),
    "falcon": Family(
        style="falcon",
        half_softmax=True,
        norm="layer",
        norm_bias=True,
        mlp="fused",
        defaults={
            "vocab_size": 65024,
            "tie_word_embeddings": True,
            "multi_query": True,
            "parallel_attn": True,
            "max_position_embeddings": 2048,
            "hidden_act": "gelu",
        },
    ),
    "opt": Family(
        **BIASED,
        mlp="relu",
        extra_positions=2,
        defaults={
            "vocab_size": 50272,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "tie_word_embeddings": True,
            "max_position_embeddings": 2048,
            "activation_function": "relu",
            "dropout": 0.1,
        },
    ),
    "bloom": Family(
        **BIASED,
        mlp="fused",
        embedding_norm=True,
        fused_rotary=True,
        only_eager=True,
        defaults={"vocab_size": 250880, "tie_word_embeddings": True, "hidden_act": "gelu"},
    ),
    "starcoder2": Family(
        norm="layer",
        norm_bias=True,
        qkv_bias="use_bias",
        out_bias="use_bias",
        mlp="fused",
        mlp_bias="use_bias",
        defaults={
            "vocab_size": 49152,
            "tie_word_embeddings": True,
            "use_bias": True,
            "num_key_value_heads": 2,
            "hidden_act": "gelu_pytorch_tanh",
        },
    ),
    "cohere": Family(norm="wide", norms=1, defaults={**_GEMMA, "tie_word_embeddings": True}),
    "olmo2": Family(norm="wide", qk_norm="all", defaults={**_LLAMA, "vocab_size": 50304}),
    "mixtral": Family(
        defaults={
            "vocab_size": 32000,
            "tie_word_embeddings": False,
            "num_key_value_heads": 8,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
        },
    ),
    "qwen2_moe": Family(
        qkv_bias=True,
        defaults={
            **_QWEN,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "decoder_sparse_step": 1,
        },
    ),
    "qwen3_moe": Family(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        qk_norm="head",
        defaults={
            **_QWEN,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
            "decoder_sparse_step": 1,
            "num_key_value_heads": 4,
        },
    ),
    "deepseek_v2": Family(
        style="deepseek",
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        defaults={
            "vocab_size": 102400,
            "tie_word_embeddings": False,
            "n_routed_experts": 64,
            "moe_intermediate_size": 1407,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "n_shared_experts": 2,
            "first_k_dense_replace": 0,
            "num_experts_per_tok": 6,
        },
    ),
    "deepseek_v3": Family(
        style="deepseek",
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        defaults={
            "vocab_size": 129280,
            "tie_word_embeddings": False,
            "n_routed_experts": 256,
            "moe_intermediate_size": 2048,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "n_shared_experts": 1,
            "first_k_dense_replace": 3,
            "num_experts_per_tok": 8,
        },
    ),
}
# Other names of the same thing.
FAMILIES["gemma3"] = FAMILIES["gemma3_text"]
for _name in ("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"):
    FAMILIES[_name] = FAMILIES["qwen2"]
FAMILIES["ministral"] = FAMILIES["mistral"]
