"""A Hugging Face config.json: its text as the shape of a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zlaunch.errors import ConfigError
from zlaunch.memory.config_keys import ConfigKeys, parse_json
from zlaunch.memory.families import FAMILIES
from zlaunch.memory.family import Family
from zlaunch.memory.shape import Mlp, ModelShape, gathered
from zlaunch.memory.tensors import (
    STYLES,
    Parts,
    experts,
    heads,
    intermediate,
    linear,
    norm,
    relative_kinds,
    span,
    times,
)

_PYTHON_GELU = {"gelu_new", "gelu_fast", "quick_gelu", "gelu_python", "gelu_10"}
_ROBERTA_LIKE = {"roberta", "xlm-roberta", "camembert"}


def shape_of_config(text: str, where: str) -> ModelShape:
    """The shape that the config.json `text` describes; `where` is its file, for errors.

    Raises `ConfigError` where it is no config of a transformer, or where what decides about
    memory is missing.
    """
    table = parse_json(text, where)
    inner = table.get("text_config") or table.get("llm_config") or table.get("language_config")
    if isinstance(inner, dict) and "hidden_size" not in table:
        architectures = inner.get("architectures") or table.get("architectures")
        inner = {**inner, "architectures": architectures}
        shape = _shape(inner, text, where, str(table.get("model_type", "")))
        return _with_vision(shape, table, text, where)
    shape = _shape(table, text, where, "")
    return _with_vision(shape, table, text, where) if "vision_config" in table else shape


def _shape(table: dict[str, Any], text: str, where: str, outer: str) -> ModelShape:
    name = str(table.get("model_type") or outer)
    family = FAMILIES.get(name)
    notes: tuple[str, ...] = ()
    if family is None:
        family = _unknown_family(table)
        notes = (
            (
                f'model_type "{name}" is not known: counted like {_likeness(family)}; give the'
                " folder with its .safetensors files for the exact number"
            ),
        )
    if "quantization_config" in table:
        notes += ("quantization_config is not looked at: all weights are taken as trained",)
    keys = ConfigKeys(table, text, where, family.defaults)
    head, logits, note = _head(keys, family, name)
    count, kv_count, size = heads(keys)
    hidden, vocab = keys.number("hidden_size"), keys.number("vocab_size")
    width = keys.number("word_embed_proj_dim", hidden)
    parts = [(vocab * width, 1), *STYLES[family.style](keys, family), *head]
    return ModelShape(
        name=name or "a transformer",
        source=where,
        kind=_kind(family),
        tensors=gathered(parts),
        layers=_layers(keys, family),
        hidden=hidden,
        heads=count,
        kv_heads=_shared(keys, family) or kv_count,
        head_dim=_head_dim(keys, family) or size,
        intermediate=intermediate(keys),
        vocab=vocab,
        tied=keys.flag("tie_word_embeddings", True),
        positions=keys.optional("max_position_embeddings") or None,
        norm=family.norm,
        norms=_norms(keys, family),
        mlp=_mlp(keys, family),
        attentions=_attentions(keys, family),
        shared_heads=bool(_shared(keys, family)),
        fused_rotary=family.fused_rotary,
        qk_norm=bool(family.qk_norm),
        half_softmax=family.half_softmax,
        hidden_dropout=keys.rate(
            "hidden_dropout_prob", "resid_pdrop", "hidden_dropout", "dropout", "dropout_rate"
        ),
        mlp_dropout=family.style == "t5" and keys.rate("dropout_rate"),
        attention_dropout=keys.rate(
            "attention_probs_dropout_prob", "attn_pdrop", "attention_dropout", "dropout_rate"
        ),
        logits=logits,
        experts=experts(keys),
        span=span(keys) if relative_kinds(keys) else 0,
        span_kinds=relative_kinds(keys),
        only_eager=family.only_eager,
        exact=name in FAMILIES,
        notes=(*notes, *note),
    )


def _kind(family: Family) -> Any:
    return {"encoder": "encoder", "deberta": "encoder", "t5": "encoder-decoder"}.get(
        family.style, "decoder"
    )


def _layers(keys: ConfigKeys, family: Family) -> int:
    layers = keys.number("num_hidden_layers")
    return layers + (keys.number("num_decoder_layers", layers) if family.style == "t5" else 0)


def _attentions(keys: ConfigKeys, family: Family) -> float:
    """Attentions of a layer; T5's decoder has two."""
    layers = keys.number("num_hidden_layers")
    decoders = keys.number("num_decoder_layers", layers)
    return (layers + 2 * decoders) / (layers + decoders) if family.style == "t5" else 1


def _shared(keys: ConfigKeys, family: Family) -> int:
    """The heads that all queries share in Falcon, which does not repeat them; else 0."""
    if family.style != "falcon":
        return 0
    count, kv_count, _ = heads(keys)
    if keys.flag("new_decoder_architecture"):
        return kv_count
    return 1 if keys.flag("multi_query") else count


def _norms(keys: ConfigKeys, family: Family) -> float:
    if family.style == "t5":  # one more for each attention
        return 1 + _attentions(keys, family)
    one = family.style == "falcon" and keys.flag("parallel_attn", True)
    return 1 if one and not keys.flag("new_decoder_architecture") else family.norms


def _head_dim(keys: ConfigKeys, family: Family) -> int:
    """DeepSeek's queries and keys are wider than its values; their mean. Else 0."""
    if family.style != "deepseek":
        return 0
    wide = keys.number("qk_rope_head_dim") + keys.number("qk_nope_head_dim")
    return (wide + keys.number("v_head_dim")) // 2


def _mlp(keys: ConfigKeys, family: Family) -> Mlp:
    """Which tensors the activation keeps; the config's activation overrules its family."""
    if family.style == "t5":
        return "gated" if "gated" in keys.word("feed_forward_proj") else "relu"
    if family.mlp == "gated":
        return "gated"
    act = keys.word("hidden_act") or keys.word("activation_function") or keys.word("activation")
    if not act:
        return family.mlp
    return "python" if act in _PYTHON_GELU else "relu" if act == "relu" else "fused"


def _head(keys: ConfigKeys, family: Family, name: str) -> tuple[Parts, bool, tuple[str, ...]]:
    """What sits on top: its parameters, whether it makes logits over the vocabulary, a note."""
    listed = keys.table.get("architectures")
    architecture = str(listed[0]) if isinstance(listed, list) and listed else ""
    hidden, vocab = keys.number("hidden_size"), keys.number("vocab_size")
    labels = _labels(keys)
    encoder = family.style in ("encoder", "deberta")
    note: tuple[str, ...] = ()
    if not architecture:
        architecture = "ForSequenceClassification" if encoder else "ForCausalLM"
        note = (f"no architectures in the config: taken for {architecture}",)
    if encoder:
        return *_encoder_head(architecture, name, hidden, vocab, labels), note
    if architecture.endswith(("ForSequenceClassification", "ForTokenClassification")):
        return [(hidden * labels, 1)], False, note
    if architecture.endswith("Model") and not architecture.endswith("LMHeadModel"):
        return [], False, note
    tied = keys.flag("tie_word_embeddings", True)
    bias: Parts = [(vocab, 1)] if family.head_bias else []
    return ([] if tied else [(vocab * hidden, 1)]) + bias, True, note


def _labels(keys: ConfigKeys) -> int:
    names = keys.table.get("id2label")
    return len(names) if isinstance(names, dict) and names else keys.number("num_labels", 2)


def _encoder_head(
    architecture: str, name: str, hidden: int, vocab: int, labels: int
) -> tuple[Parts, bool]:
    square, classify = linear(hidden, hidden, True), linear(hidden, labels, True)
    words = square + norm(hidden, True) + [(vocab, 1)]  # the projection itself is the embedding
    if architecture.endswith("ForMaskedLM"):
        return words, True
    if architecture.endswith("ForPreTraining"):
        return words + square + linear(hidden, 2, True), True
    if architecture.endswith(("ForTokenClassification", "ForQuestionAnswering")):
        return classify, False
    if architecture.endswith("Model"):
        pooled = name not in ("deberta-v2", "distilbert")
        return (square if pooled else []), False
    return square + classify, False


def _unknown_family(table: dict[str, Any]) -> Family:
    """The likeness of a family that is not known, by the names that its config uses."""
    if "hidden_dropout_prob" in table or "type_vocab_size" in table:
        return FAMILIES["bert"]
    if "n_embd" in table:
        return FAMILIES["gpt2"]
    if "n_routed_experts" in table and "kv_lora_rank" in table:
        return FAMILIES["deepseek_v3"]
    gated = str(table.get("hidden_act", "silu")) in ("silu", "swish", "gelu_pytorch_tanh")
    return Family(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        mlp="gated" if gated else "fused",
        mlp_bias="mlp_bias",
        defaults={"tie_word_embeddings": False},
    )


def _likeness(family: Family) -> str:
    return next((name for name, known in FAMILIES.items() if known is family), "llama")


def _with_vision(shape: ModelShape, table: dict[str, Any], text: str, where: str) -> ModelShape:
    """The text part, with the parameters of the vision tower as those of a plain ViT."""
    vision = table.get("vision_config")
    note = "images: their tower counts as a plain ViT, and its activations are not included"
    if not isinstance(vision, dict):
        return replace(shape, exact=False, notes=(*shape.notes, note))
    keys = ConfigKeys(vision, text, where, {})
    try:
        tower = _tower(keys)
    except ConfigError:
        tower, note = [], "the vision part could not be read and is not included"
    tensors = gathered([*shape.tensors, *tower])
    return replace(shape, tensors=tensors, exact=False, notes=(*shape.notes, note))


def _tower(keys: ConfigKeys) -> Parts:
    hidden = keys.number("hidden_size", keys.optional("embed_dim") or None)
    layers = keys.number("num_hidden_layers", keys.optional("depth") or None)
    width, patch = intermediate(keys), keys.number("patch_size", 14)
    layer = times(linear(hidden, hidden, True), 4) + linear(hidden, width, True)
    layer += linear(width, hidden, True) + norm(hidden, True) * 2
    side = keys.number("image_size", 336) // patch
    ends = [*linear(3 * patch * patch, hidden, True), (side * side * hidden, 1)]
    return times(layer, layers) + ends + norm(hidden, True)
