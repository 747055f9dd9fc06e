"""Parameters counted from a config.json are those of the real model, built without memory."""

from __future__ import annotations

from typing import Any

import pytest

from zlaunch.memory.model_config import shape_of_config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL = {"hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8}
GROUPED = {**SMALL, "num_key_value_heads": 2}
DEBERTA = {
    "relative_attention": True,
    "position_buckets": 256,
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "norm_rel_ebd": "layer_norm",
    "conv_kernel_size": 3,
}
OPT_350M = {
    "hidden_size": 1024,
    "ffn_dim": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 3,
    "word_embed_proj_dim": 512,
    "do_layer_norm_before": False,
}
MODELS: list[tuple[str, str, dict[str, Any]]] = [
    ("Llama", "ForCausalLM", {**GROUPED, "intermediate_size": 1376}),
    ("Llama", "ForCausalLM", {**SMALL, "tie_word_embeddings": True, "attention_bias": True}),
    ("Llama", "ForCausalLM", {**SMALL, "mlp_bias": True}),
    ("Llama", "ForSequenceClassification", {**SMALL, "num_labels": 5}),
    ("Mistral", "ForCausalLM", GROUPED),
    ("Qwen2", "ForCausalLM", GROUPED),
    ("Qwen3", "ForCausalLM", GROUPED),
    ("Gemma", "ForCausalLM", SMALL),
    ("Gemma2", "ForCausalLM", SMALL),
    ("Gemma3Text", "Gemma3ForCausalLM", SMALL),
    ("Phi", "ForCausalLM", SMALL),
    ("Phi", "ForCausalLM", {**SMALL, "qk_layernorm": True}),
    ("Phi3", "ForCausalLM", {**SMALL, "pad_token_id": 0}),
    ("GPT2", "LMHeadModel", {"n_embd": 512, "n_layer": 3, "n_head": 8}),
    ("GPT2", "ForSequenceClassification", {"n_embd": 512, "n_layer": 3, "n_head": 8}),
    ("GPTJ", "ForCausalLM", {"n_embd": 512, "n_layer": 3, "n_head": 8}),
    ("GPTNeoX", "ForCausalLM", SMALL),
    ("Falcon", "ForCausalLM", SMALL),
    ("Falcon", "ForCausalLM", {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2}),
    ("Falcon", "ForCausalLM", {**SMALL, "multi_query": False, "parallel_attn": False}),
    ("OPT", "ForCausalLM", {"num_hidden_layers": 3}),
    ("OPT", "ForCausalLM", OPT_350M),
    ("Bloom", "ForCausalLM", {"hidden_size": 512, "n_layer": 3}),
    ("Starcoder2", "ForCausalLM", SMALL),
    ("Cohere", "ForCausalLM", SMALL),
    ("Olmo2", "ForCausalLM", SMALL),
    ("Granite", "ForCausalLM", SMALL),
    ("SmolLM3", "ForCausalLM", SMALL),
    ("Mixtral", "ForCausalLM", {**SMALL, "intermediate_size": 256}),
    ("Qwen2Moe", "ForCausalLM", {**SMALL, "num_hidden_layers": 4, "mlp_only_layers": [1]}),
    ("Qwen3Moe", "ForCausalLM", {**SMALL, "num_hidden_layers": 4, "decoder_sparse_step": 2}),
    ("DeepseekV2", "ForCausalLM", {**SMALL, "first_k_dense_replace": 1}),
    ("DeepseekV2", "ForCausalLM", {**SMALL, "q_lora_rank": None}),
    ("DeepseekV3", "ForCausalLM", {**SMALL, "num_hidden_layers": 4, "n_routed_experts": 8}),
    ("Bert", "ForSequenceClassification", {}),
    ("Bert", "ForMaskedLM", {}),
    ("Bert", "ForPreTraining", {}),
    ("Bert", "ForTokenClassification", {"num_labels": 9}),
    ("Bert", "Model", {}),
    ("Roberta", "ForSequenceClassification", {"max_position_embeddings": 514}),
    ("Roberta", "ForMaskedLM", {"type_vocab_size": 1}),
    ("XLMRoberta", "ForSequenceClassification", {}),
    ("DistilBert", "ForSequenceClassification", {}),
    ("DistilBert", "ForMaskedLM", {}),
    ("DebertaV2", "ForSequenceClassification", DEBERTA),
    ("DebertaV2", "ForMaskedLM", {"relative_attention": True, "pos_att_type": "p2c|c2p"}),
    ("DebertaV2", "ForTokenClassification", {}),
    ("T5", "ForConditionalGeneration", {}),
    (
        "T5",
        "ForConditionalGeneration",
        {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 3},
    ),
    ("T5", "ForConditionalGeneration", {"tie_word_embeddings": False}),
    ("MT5", "ForConditionalGeneration", {}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("family", "head", "changes"),
    MODELS,
    ids=[f"{f}-{h}-{i}" for i, (f, h, _) in enumerate(MODELS)],
)
def test_as_many_parameters_as_the_real_model(
    family: str, head: str, changes: dict[str, Any]
) -> None:
    name = head if head.startswith(family[:4]) else family + head
    config_class = getattr(transformers, f"{family}Config", None)
    model_class = getattr(transformers, name, None)
    if config_class is None or model_class is None:
        pytest.skip(f"this transformers has no {name}")
    config = config_class(**changes)
    config.architectures = [name]
    with torch.device("meta"):
        sizes = [parameter.numel() for parameter in model_class(config).parameters()]
    shape = shape_of_config(config.to_json_string(), "config.json")
    assert shape.parameters == sum(sizes)
    assert shape.largest_tensor == max(sizes)
    assert shape.exact
    counted = sorted((size for size, count in shape.tensors for _ in range(count)), reverse=True)
    if family not in {"GPT2", "GPTNeoX", "Bloom", "Falcon", "Phi3"}:  # those fuse projections
        assert counted == sorted(sizes, reverse=True)
