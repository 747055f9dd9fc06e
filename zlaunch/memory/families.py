"""The families of models that are known, and the defaults of their configs.

A config.json may leave out what is its family's default, so these are needed to read one. Both
are written from transformers 5.24 (`configuration_*.py`, `modeling_*.py`); tests hold the
defaults to the config classes, and the parameters to the real models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zlaunch.memory.decoder_families import DECODERS
from zlaunch.memory.encoder_families import ENCODERS
from zlaunch.memory.family import Family
from zlaunch.memory.family_defaults import DEFAULTS
from zlaunch.memory.moe_families import MIXTURES
from zlaunch.memory.seq2seq_families import SEQ2SEQ
from zlaunch.memory.vision_families import VISION

FAMILIES: dict[str, Family] = {**DECODERS, **MIXTURES, **ENCODERS, **SEQ2SEQ, **VISION}
# Text parts of models of images, and other names of the same thing.
for _name, _same in (
    ("qwen2_vl_text", "qwen2"),
    ("qwen2_vl", "qwen2"),
    ("qwen2_5_vl_text", "qwen2"),
    ("qwen2_5_vl", "qwen2"),
    ("gemma3", "gemma3_text"),
    ("llama4", "llama4_text"),
    ("ministral", "mistral"),
):
    FAMILIES[_name] = FAMILIES[_same]


def defaults(name: str) -> Mapping[str, Any]:
    """What a config of this family means where it is silent."""
    return DEFAULTS.get(name, {})


def likeness(table: Mapping[str, Any]) -> tuple[str, Family]:
    """The family that one which is not known looks like, by the names that its config uses."""
    if "encoder_layers" in table and "decoder_layers" in table:
        return "bart", FAMILIES["bart"]
    if "hidden_dropout_prob" in table or "type_vocab_size" in table:
        return "bert", FAMILIES["bert"]
    if "n_embd" in table:
        return "gpt2", FAMILIES["gpt2"]
    if "n_routed_experts" in table and "kv_lora_rank" in table:
        return "deepseek_v3", FAMILIES["deepseek_v3"]
    if str(table.get("hidden_act", "silu")) in ("silu", "swish", "gelu_pytorch_tanh"):
        return "llama", FAMILIES["llama"]
    biases: dict[str, Any] = {"qkv_bias": "attention_bias", "out_bias": "attention_bias"}
    return "llama with a plain MLP", Family(**biases, mlp="fused", mlp_bias="mlp_bias")
