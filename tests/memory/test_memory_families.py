"""Every family that is known, counted beside the real models of transformers.

What is said to be exact has to be: with each head that the family has, with each switch of its
config turned, and with each number doubled.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from real_models import (
    NEEDED,
    config_class,
    heads,
    inner_variants,
    parameters,
    small,
    transformers,
    variants,
)

from zlaunch.errors import ConfigError
from zlaunch.memory.families import FAMILIES
from zlaunch.memory.family_defaults import DEFAULTS
from zlaunch.memory.model_config import ESTIMATE, shape_of_config
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.vision_tensors import TOWERS

KINDS = [kind for kind in dict.fromkeys([*FAMILIES, *TOWERS]) if config_class(kind)]
# These are told to be not exact, and nothing else of these families is.
NOT_EXACT = {
    *("DoubleHeadsModel", "ForAudioClassification", "ForMaskedImageModeling"),
    *("add_cross_attention=True", "use_prompt=True", "share_encoder_decoder_embeddings=False"),
    *("_remove_final_layer_norm=True", "enable_bias=False", "layer_norm_elementwise_affine=False"),
}
USUAL = (
    *("ForConditionalGeneration", "MTModel", "ForCausalLM", "LMHeadModel", "ForMaskedLM"),
    *("ForImageClassification", "Model"),
)


def usual(kind: str) -> str:
    """The head that a family is known for."""
    found = heads(kind)
    return next(name for end in USUAL for name in found if name.endswith(end))


def counted(config: Any) -> ModelShape:
    return shape_of_config(config.to_json_string(), "config.json")


def wrong(config: Any, name: str, what: str) -> str | None:
    """What is wrong with the count of this model; None where nothing is."""
    sizes = None
    with contextlib.suppress(Exception):  # transformers itself cannot build it
        sizes = parameters(config, name)
    if sizes is None:
        return None
    shape = counted(config)
    if shape.exact and shape.parameters != sum(sizes):
        return f"{name} {what}: {shape.parameters:,} counted, {sum(sizes):,} real"
    if not shape.exact and not any(what.endswith(end) for end in NOT_EXACT):
        return f"{name} {what}: not exact"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_family_as_its_class_has_it(kind: str) -> None:
    if kind == "llama4":
        pytest.skip("its class makes no model by itself; see below")
    name = usual(kind)
    config = config_class(kind)(**NEEDED.get(kind, {}))
    sizes = parameters(config, name)
    shape = counted(config)
    assert shape.parameters == sum(sizes)
    assert shape.exact
    assert not any(ESTIMATE in note for note in shape.notes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in (*TOWERS, "clip", "siglip")]
)
def test_each_head_each_switch_and_each_number(kind: str) -> None:
    found = [wrong(small(kind), name, name) for name in heads(kind)]
    name = usual(kind)
    found += [wrong(config, name, what) for what, config in variants(kind)]
    assert [one for one in found if one] == []
    assert len(found) > 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["clip", "siglip", *(kind for kind in TOWERS if kind != "llama4")])
def test_each_switch_and_each_number_of_both_towers(kind: str) -> None:
    name = usual(kind)
    found = [wrong(config, name, what) for what, config in inner_variants(kind)]
    assert [one for one in found if one] == []
    assert len(found) > 10


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in TOWERS])
def test_the_attention_that_transformers_has_for_it(kind: str) -> None:
    name = usual(kind)
    config = small(kind)
    config.architectures = [name]
    shape, real = counted(config), getattr(transformers, name)
    assert shape.only_eager != real._supports_sdpa
    if shape.only_eager:
        assert shape.flash == real._supports_flash_attn


@pytest.mark.filterwarnings("ignore")
def test_llama_4_with_its_tower() -> None:
    config = config_class("llama4")()
    config.pad_token_id = 0
    sizes = parameters(config, "Llama4ForConditionalGeneration")
    assert counted(config).parameters == sum(sizes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", DEFAULTS)
def test_defaults_are_those_of_the_classes(kind: str) -> None:
    outer = {
        "qwen2_vl_vision": "qwen2_vl",
        "qwen2_5_vl_vision": "qwen2_5_vl",
        "llama4_vision_model": "llama4",
    }
    real = config_class(outer.get(kind, kind))
    if real is None:
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    config = real().vision_config if kind in outer else real()
    table = config.to_dict()
    assert {key: table.get(key) for key in DEFAULTS[kind]} == DEFAULTS[kind]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("helium", "HeliumForCausalLM"),
        ("modernbert", "ModernBertForMaskedLM"),
        ("rembert", "RemBertForMaskedLM"),
        ("mamba2", "Mamba2ForCausalLM"),
        ("wav2vec2", "Wav2Vec2ForCTC"),
        ("pegasus_x", "PegasusXForConditionalGeneration"),
        ("switch_transformers", "SwitchTransformersForConditionalGeneration"),
        ("mistral3", "Mistral3ForConditionalGeneration"),
        ("qwen2_audio", "Qwen2AudioForConditionalGeneration"),
    ],
)
def test_a_family_that_is_not_known_is_an_estimate(kind: str, name: str) -> None:
    config = config_class(kind)()
    config.architectures = [name]
    shape = counted(config)
    assert not shape.exact
    assert any(ESTIMATE in note for note in shape.notes)


ODD: list[Any] = [
    *(None, True, 0, -1, 3, 10**9, 10**12, 1.5, float("nan"), "x", [1], [[1]], {"a": 1}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*KINDS, "modernbert", "mamba2", "qwen2_audio", "mistral3"])
def test_any_value_anywhere_is_counted_or_refused(kind: str) -> None:
    """One message, and no other error, whatever a key of the config says; and at once."""
    config = config_class(kind)(**NEEDED.get(kind, {}))
    table = json.loads(json.dumps(config.to_dict(), default=str))
    began = time.monotonic()
    sections = [table, *(table[key] for key in table if isinstance(table[key], dict))]
    outcomes = []
    for section in sections:
        for key in section:
            kept = section[key]
            for value in ODD:
                section[key] = value
                try:
                    outcomes.append(shape_of_config(json.dumps(table), "c").parameters > 0)
                except ConfigError as error:
                    outcomes.append(len(str(error)) < 400)
            section[key] = kept
    assert all(outcomes)
    assert (time.monotonic() - began) / len(outcomes) < 0.1


def test_the_docs_list_the_families() -> None:
    text = (Path(__file__).parents[2] / "docs" / "memory.md").read_text("utf-8")
    table = text[text.index("| decoders |") : text.index("The tests build each")]
    named = set(re.findall(r"[\w-]+", table))
    assert {kind for kind in KINDS if not kind.endswith("vl_text")} - named == set()
