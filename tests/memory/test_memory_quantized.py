"""Packed checkpoints are counted as the model that they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zlaunch.memory.model_config import shape_of_config
from zlaunch.memory.quantized import config_bits, is_quantized, unpacked
from zlaunch.memory.safetensors import Stored
from zlaunch.memory.stored_shape import shape_of_stored, with_stored

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "vocab_size": 1000,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "tie_word_embeddings": False,
}
# Inputs and outputs of the linears of a layer.
LINEARS = {
    **{f"self_attn.{name}_proj": (256, 256) for name in "qkvo"},
    **{f"mlp.{name}_proj": (256, 512) for name in ("gate", "up")},
    "mlp.down_proj": (512, 256),
}


def gptq(name: str, inputs: int, outputs: int) -> list[Stored]:
    return [
        Stored(f"{name}.qweight", "I32", (inputs * 4 // 32, outputs)),
        Stored(f"{name}.qzeros", "I32", (inputs // 128, outputs * 4 // 32)),
        Stored(f"{name}.scales", "F16", (inputs // 128, outputs)),
        Stored(f"{name}.g_idx", "I32", (inputs,)),
    ]


def gptq_3(name: str, inputs: int, outputs: int) -> list[Stored]:
    first = Stored(f"{name}.qweight", "I32", (inputs * 3 // 32, outputs))
    return [first, *gptq(name, inputs, outputs)[1:]]


def awq(name: str, inputs: int, outputs: int) -> list[Stored]:
    return [
        Stored(f"{name}.qweight", "I32", (inputs, outputs // 8)),
        Stored(f"{name}.qzeros", "I32", (inputs // 128, outputs // 8)),
        Stored(f"{name}.scales", "F16", (inputs // 128, outputs)),
    ]


def nf4(name: str, inputs: int, outputs: int) -> list[Stored]:
    whole = f"{name}.weight"
    return [
        Stored(whole, "U8", (inputs * outputs // 2, 1)),
        Stored(f"{whole}.absmax", "U8", (inputs * outputs // 64,)),
        Stored(f"{whole}.quant_map", "F32", (16,)),
        Stored(f"{whole}.nested_absmax", "F32", (inputs * outputs // 64 // 256,)),
        Stored(f"{whole}.nested_quant_map", "F32", (256,)),
        Stored(f"{whole}.quant_state.bitsandbytes__nf4", "U8", (97,)),
    ]


def int8(name: str, inputs: int, outputs: int) -> list[Stored]:
    return [
        Stored(f"{name}.weight", "I8", (outputs, inputs)),
        Stored(f"{name}.SCB", "F32", (outputs,)),
        Stored(f"{name}.weight_format", "U8", ()),
    ]


def fp8(name: str, inputs: int, outputs: int) -> list[Stored]:
    return [
        Stored(f"{name}.weight", "F8_E4M3", (outputs, inputs)),
        Stored(f"{name}.weight_scale_inv", "F32", (outputs // 128, inputs // 128)),
    ]


def compressed(name: str, inputs: int, outputs: int) -> list[Stored]:
    return [
        Stored(f"{name}.weight_packed", "I32", (outputs, inputs // 8)),
        Stored(f"{name}.weight_scale", "BF16", (outputs, inputs // 128)),
        Stored(f"{name}.weight_shape", "I64", (2,)),
    ]


def mxfp4(name: str, inputs: int, outputs: int) -> list[Stored]:
    return [
        Stored(f"{name}_blocks", "U8", (outputs, inputs // 32, 16)),
        Stored(f"{name}_scales", "U8", (outputs, inputs // 32)),
    ]


def checkpoint(form: Any) -> tuple[Stored, ...]:
    tensors = [Stored("model.embed_tokens.weight", "F16", (1000, 256))]
    tensors += [
        Stored("lm_head.weight", "F16", (1000, 256)),
        Stored("model.norm.weight", "F16", (256,)),
    ]
    for layer in range(2):
        at = f"model.layers.{layer}"
        for name, (inputs, outputs) in LINEARS.items():
            tensors += form(f"{at}.{name}", inputs, outputs)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors.append(Stored(f"{at}.{norm}.weight", "F16", (256,)))
    return tuple(tensors)


FORMS = [gptq, gptq_3, awq, nf4, int8, fp8, compressed, mxfp4]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("family", ["llama", "brandnew"])
def test_a_packed_checkpoint_has_the_parameters_of_the_model(form: Any, family: str) -> None:
    plain = shape_of_config(json.dumps(CONFIG), "c")
    section = {"quantization_config": {"quant_method": "some", "bits": 4}}
    known = shape_of_config(json.dumps({**CONFIG, **section, "model_type": family}), "c")
    found = with_stored(known, checkpoint(form), "dir", 4)
    assert found.parameters == plain.parameters and found.exact
    assert any("QLoRA" in note for note in found.notes)
    assert any("once unpacked" in note for note in found.notes)


@pytest.mark.parametrize("form", [gptq, awq, nf4, int8, fp8], ids=lambda form: form.__name__)
def test_without_a_config_too(form: Any) -> None:
    plain = shape_of_config(json.dumps(CONFIG), "c")
    found = shape_of_stored(checkpoint(form), "dir")
    assert found.parameters == plain.parameters
    assert "unpacked" in found.notes[-1]


def test_bits_that_nobody_says_are_not_guessed() -> None:
    assert unpacked(checkpoint(compressed), None) is None
    without_index = tuple(t for t in checkpoint(gptq) if not t.name.endswith("g_idx"))
    assert unpacked(without_index, None) is None
    assert unpacked(without_index, 4) is not None
    assert not is_quantized((Stored("model.layers.0.mlp.scales", "F16", (4,)),))


@pytest.mark.parametrize(
    ("section", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4}, 4),
        ({"quant_method": "awq", "w_bit": 4}, 4),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4),
        ({"config_groups": {"group_0": {"weights": {"num_bits": 8}}}}, 8),
        ({"quant_method": "fp8"}, None),
        ({"bits": "four"}, None),
        ({"bits": 10**9}, None),
        ("gptq", None),
        (None, None),
        ({"config_groups": [1]}, None),
    ],
)
def test_the_bits_that_a_config_names(section: Any, bits: int | None) -> None:
    assert config_bits({"quantization_config": section}) == bits
    shape_of_config(json.dumps({**CONFIG, "quantization_config": section}), "c")
