"""A Hugging Face config.json: its text as the shape of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zlaunch.errors import ConfigError
from zlaunch.memory.config_keys import ConfigKeys, parse_json, short
from zlaunch.memory.encoder_tensors import embedding_width
from zlaunch.memory.families import FAMILIES, defaults, likeness
from zlaunch.memory.family import Family
from zlaunch.memory.geometry import shape_of
from zlaunch.memory.model_heads import head
from zlaunch.memory.parts import Parts
from zlaunch.memory.quantized import config_note
from zlaunch.memory.shape import ModelShape, bounded, gathered
from zlaunch.memory.styles import STYLES
from zlaunch.memory.two_towers import TWO_TOWERS, two_towers
from zlaunch.memory.vision_tensors import TOWERS, plain_tower

_TEXT_PARTS = ("text_config", "llm_config", "language_config")
# Sections that say nothing about parameters.
_SILENT = {"quantization_config", "generation_config", "attn_config", "ffn_config"}
# Switches of some families that nobody has turned, and what they do is not counted.
_ODD: dict[str, dict[str, bool]] = {
    "marian": {"share_encoder_decoder_embeddings": False},
    "mvp": {"use_prompt": True},
    "opt": {
        "_remove_final_layer_norm": True,
        "enable_bias": False,
        "layer_norm_elementwise_affine": False,
    },
}
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
ESTIMATE = "an estimate, which can be far off: its .safetensors beside it, or --params, say it"


def shape_of_config(text: str, where: str) -> ModelShape:
    """The shape that the config.json `text` describes; `where` is its file, for errors.

    Raises `ConfigError` where it is no config of a transformer, or where what decides about
    memory is missing.
    """
    table = parse_json(text, where)
    name = _model_type(table, text, where)
    if name in TWO_TOWERS:
        shape = two_towers(ConfigKeys(table, text, where, defaults(name)), name)
    else:
        shape = _with_parts(table, name, text, where)
    return bounded(replace(shape, notes=(*shape.notes, *config_note(table))))


def _with_parts(table: dict[str, Any], name: str, text: str, where: str) -> ModelShape:
    """The text part, and what stands beside it."""
    inner = next((table[key] for key in _TEXT_PARTS if isinstance(table.get(key), dict)), None)
    flat = ConfigKeys(table, text, where, {}).find("num_hidden_layers") is not None
    if inner is None or flat:
        shape = _shape(table, name, text, where, silent=())
    else:
        above = ("architectures", "tie_word_embeddings")
        upper = {key: table[key] for key in above if table.get(key) is not None}
        inner = {**inner, **upper}
        kind = _model_type(inner, text, where)
        if name in TOWERS and kind not in FAMILIES:
            kind = TOWERS[name][0]
        base = {**defaults(kind), **defaults(name)}
        shape = _shape(inner, kind or name, text, where, base=base)
        shape = replace(shape, name=name or shape.name, exact=shape.exact and name in TOWERS)
    beside = {key for key in table if key.endswith("_config")} - {*_TEXT_PARTS, *_SILENT}
    if "vision_config" in beside or name in TOWERS:
        shape = _with_vision(shape, table, name, text, where)
    others = sorted(key for key in beside if key != "vision_config" and table[key])
    if others:
        note = f"{', '.join(others)[:80]}: not counted, so that this is {ESTIMATE}"
        shape = replace(shape, exact=False, notes=(*shape.notes, note))
    return shape


def _model_type(table: Mapping[str, Any], text: str, where: str) -> str:
    name = table.get("model_type") or ""
    if not isinstance(name, str) or len(name) > 60 or not name.isprintable():
        keys = ConfigKeys(table, text, where, {})
        raise keys.wrong("model_type", "the short name of a family", name)
    return name


def _shape(
    table: Mapping[str, Any],
    name: str,
    text: str,
    where: str,
    *,
    base: Mapping[str, Any] | None = None,
    silent: tuple[str, ...] | None = None,
) -> ModelShape:
    """The shape of a model of one part; `silent` where what is left out has to be said."""
    family = FAMILIES.get(name)
    notes: tuple[str, ...] = ()
    known = family is not None and _as_known(table, name)
    if family is None:
        like, family = likeness(table)
        named = f'model_type "{name}" is not known' if name else "no model_type in the config"
        notes += (f"{named}: counted like {like}, {ESTIMATE}",)
        keys = ConfigKeys(table, text, where, {"tie_word_embeddings": like in ("bert", "gpt2")})
    else:
        keys = ConfigKeys(table, text, where, defaults(name) if base is None else base)
        if silent is not None:
            notes += _left_out(keys, family)
        if not known:
            notes += (f"this {name} has parts that are not known: {ESTIMATE}",)
    found = head(keys, family, name)
    notes += (found.note,) if found.note else ()
    parts = [*_embedding(keys, family), *STYLES[family.style](keys, family), *found.parts]
    shape = shape_of(keys, family, gathered(parts), logits=found.logits)
    exact = known and found.known
    return replace(shape, name=name or "a transformer", exact=exact, notes=notes)


def _embedding(keys: ConfigKeys, family: Family) -> Parts:
    """The embedding of words."""
    if family.style == "vit":
        return []
    if family.style in ("encoder", "albert"):
        width = embedding_width(keys)
    else:
        width = keys.number("word_embed_proj_dim", keys.number("hidden_size"))
    return [(keys.number("vocab_size") * width, 1)]


def _as_known(table: Mapping[str, Any], name: str) -> bool:
    """Whether the config leaves out what some of the family have and is not counted."""
    odd = {"add_cross_attention": True, **_ODD.get(name, {})}
    return not any(table.get(key) is value for key, value in odd.items())


def _left_out(keys: ConfigKeys, family: Family) -> tuple[str, ...]:
    """The sizes that stand nowhere in the config, which Transformers takes from its class."""
    asked = _SIZES[:3] if family.style == "vit" else _SIZES
    bare = keys.inside(keys.table, {})
    names = [key for key in asked if bare.find(key) is None and keys.find(key) is not None]
    if not names:
        return ()
    said = ", ".join(f"{key} {short(keys.find(key))}" for key in names)
    return (f"not in the config, so taken as Transformers does: {said}",)


def _with_vision(
    shape: ModelShape, table: Mapping[str, Any], name: str, text: str, where: str
) -> ModelShape:
    """The text part, with the parameters of the tower for images."""
    vision = table.get("vision_config")
    note = "images: the activations of their tower are not included"
    if name in TOWERS:
        _, kind, tower_of = TOWERS[name]
        section = vision if isinstance(vision, dict) else {}
        base = {**defaults(kind), **defaults(name)}
        keys = ConfigKeys(section, text, where, base)
        kinds = {kind, name, ""}
        if _model_type(section, text, where) in kinds and table.get("vision_feature_layer", -2) in (
            -1,
            -2,
        ):
            tensors = gathered([*shape.tensors, *tower_of(keys, shape.hidden)])
            return replace(shape, tensors=tensors, notes=(*shape.notes, note))
    note = f"images: their tower counts as a plain ViT, {ESTIMATE}"
    tower: Parts = []
    try:
        if isinstance(vision, dict):
            tower = plain_tower(ConfigKeys(vision, text, where, {}))
    except ConfigError:
        note = f"the vision part could not be read and is not counted: {ESTIMATE}"
    tensors = gathered([*shape.tensors, *tower])
    return replace(shape, tensors=tensors, exact=False, notes=(*shape.notes, note))
