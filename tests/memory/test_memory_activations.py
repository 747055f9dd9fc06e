"""Activations: by hand, and against what autograd keeps of real models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zlaunch.memory.activations import Workload, activations, layer_bytes, table_bytes
from zlaunch.memory.guess import guess_shape
from zlaunch.memory.model_config import shape_of_config
from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import ModelShape

HALF = Settings()
KORTHIKANTI = ModelShape(
    name="GPT as in the paper",
    source="",
    kind="decoder",
    tensors=((1, 1),),
    layers=2,
    hidden=64,
    heads=4,
    kv_heads=4,
    head_dim=16,
    intermediate=256,
    vocab=100,
    norm="layer",
    mlp="fused",
    half_softmax=True,
    hidden_dropout=True,
    attention_dropout=True,
)


def test_a_layer_of_gpt_is_that_of_korthikanti() -> None:
    """s b h (34 + 5 a s / h), for one token: 34 h + 5 a s."""
    work = Workload(1, 32, attention="eager")
    assert layer_bytes(KORTHIKANTI, HALF, work) == 34 * 64 + 5 * 4 * 32


def test_sdpa_keeps_no_scores() -> None:
    assert layer_bytes(KORTHIKANTI, HALF, Workload(1, 32)) == 34 * 64


def test_checkpointing_keeps_inputs_and_one_layer() -> None:
    work = Workload(3, 32, checkpointing=True)
    kept = activations(KORTHIKANTI, HALF, work)
    assert kept.layers == 3 * 32 * 64 * 2 * (2 + 2)  # two layers' inputs; both ends
    assert kept.recomputed == 3 * 32 * 34 * 64


def test_logits_are_counted_with_their_gradients() -> None:
    kept = activations(KORTHIKANTI, HALF, Workload(3, 32))
    assert kept.loss == 3 * 32 * 100 * (2 + 4 + 4 + 8)
    whole = activations(KORTHIKANTI, Settings(half=False), Workload(3, 32))
    assert whole.loss == 3 * 32 * 100 * (4 + 4 + 8)
    assert activations(replace(KORTHIKANTI, logits=False), HALF, Workload(3, 32)).loss == 0


def test_llama_by_hand() -> None:
    shape = guess_shape(7_000_000_000)
    h, i = shape.hidden, shape.intermediate
    width = shape.heads * shape.head_dim
    assert layer_bytes(shape, HALF, Workload(1, 8)) == 2 * 8 * h + 8 * width + 8 * i


SMALL = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "vocab_size": 500,
    "use_cache": False,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
WIDE = {**SMALL, "intermediate_size": 1024}
GATED = {**SMALL, "intermediate_size": 688, "num_key_value_heads": 2}
GPT2 = {"n_embd": 256, "n_head": 4, "vocab_size": 500, "bos_token_id": 0, "eos_token_id": 0}
T5 = {
    "d_model": 256,
    "num_heads": 4,
    "d_kv": 64,
    "d_ff": 1024,
    "vocab_size": 500,
    "decoder_start_token_id": 0,
}
DEEPSEEK = {
    **SMALL,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 256,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 0,
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
}
BART = {
    "d_model": 256,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 1024,
    "decoder_ffn_dim": 1024,
    "vocab_size": 500,
    "decoder_start_token_id": 0,
    "pad_token_id": 1,
    "forced_eos_token_id": 2,
}
DEBERTA = {
    **WIDE,
    "relative_attention": True,
    "position_buckets": 32,
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "norm_rel_ebd": "layer_norm",
    "type_vocab_size": 0,
}
MODELS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("GPT2", "LMHeadModel", "sdpa eager", GPT2),
    ("Llama", "ForCausalLM", "sdpa eager", GATED),
    ("Qwen2", "ForCausalLM", "sdpa eager", GATED),
    ("Qwen3", "ForCausalLM", "sdpa eager", {**GATED, "head_dim": 64}),
    ("Gemma", "ForCausalLM", "sdpa eager", {**GATED, "head_dim": 64}),
    ("Gemma3Text", "Gemma3ForCausalLM", "sdpa eager", {**GATED, "head_dim": 64}),
    ("Phi", "ForCausalLM", "sdpa eager", WIDE),
    ("Phi3", "ForCausalLM", "sdpa eager", {**SMALL, "intermediate_size": 688}),
    ("GPTNeoX", "ForCausalLM", "sdpa eager", WIDE),
    ("Falcon", "ForCausalLM", "sdpa eager", SMALL),
    ("OPT", "ForCausalLM", "sdpa eager", {**SMALL, "ffn_dim": 1024, "word_embed_proj_dim": 256}),
    ("Bloom", "ForCausalLM", "eager", {"hidden_size": 256, "n_head": 4, "vocab_size": 500}),
    ("Bert", "ForMaskedLM", "sdpa eager", WIDE),
    ("DebertaV2", "ForTokenClassification", "eager", DEBERTA),
    ("T5", "ForConditionalGeneration", "sdpa eager", T5),
    ("Bart", "ForConditionalGeneration", "sdpa eager", BART),
    ("Electra", "ForMaskedLM", "sdpa", {**WIDE, "embedding_size": 64}),
    ("Mpt", "ForCausalLM", "eager", {"d_model": 256, "n_heads": 4, "vocab_size": 500}),
    ("StableLm", "ForCausalLM", "sdpa", GATED),
    ("Olmo", "ForCausalLM", "sdpa", GATED),
    ("Mixtral", "ForCausalLM", "sdpa", {**GATED, "num_local_experts": 4}),
    ("DeepseekV3", "ForCausalLM", "eager", DEEPSEEK),
]
CASES = [(f, h, kind, c) for f, h, kinds, c in MODELS for kind in kinds.split()]
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers")
SAMPLES, TOKENS = 1, 96


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("family", "head", "attention", "changes"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES]
)
def test_a_layer_keeps_what_autograd_keeps(
    family: str, head: str, attention: Any, changes: dict[str, Any]
) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from kept import kept_bytes

    name = head if head.startswith(family[:4]) else family + head
    ids = torch.randint(1, 400, (SAMPLES, TOKENS))
    labels = ids % 2 if "Token" in name else ids
    found, config = [], None
    for layers in (1, 3):
        config = getattr(transformers, f"{family}Config")(**changes)
        key = next(key for key in reversed(LAYERS) if hasattr(config, key))
        setattr(config, key, layers)
        if family == "T5":
            config.num_decoder_layers = layers
        if family == "Bart":
            config.decoder_layers = layers
        model = getattr(transformers, name)._from_config(
            config, dtype=torch.bfloat16, attn_implementation=attention
        )
        model.train()
        found.append(kept_bytes(model, lambda m: m(input_ids=ids, labels=labels)))
    assert config is not None
    config.architectures = [name]
    shape = shape_of_config(config.to_json_string(), "config.json")
    layer = (found[1] - found[0]) / (2 * SAMPLES * TOKENS * (2 if family in ("T5", "Bart") else 1))
    predicted = layer_bytes(shape, HALF, Workload(SAMPLES, TOKENS, attention=attention))
    predicted += table_bytes(shape, HALF) // (SAMPLES * TOKENS)
    assert predicted == pytest.approx(layer, rel=0.12)
