"""What of a config decides about activations: widths, heads, norms, the tokens of each stack."""

from __future__ import annotations

from zlaunch.frozen import frozen
from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.encoder_tensors import relative_kinds, span
from zlaunch.memory.experts import experts
from zlaunch.memory.family import Family
from zlaunch.memory.parts import heads, intermediate, norms_qk
from zlaunch.memory.seq2seq_tensors import is_gated, stacks
from zlaunch.memory.shape import Kind, Mlp, ModelShape, Tensors
from zlaunch.memory.vision_tensors import patches

_PYTHON_GELU = {"gelu_new", "gelu_fast", "quick_gelu", "gelu_python", "gelu_10"}
_RELU = {"relu"}
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("encoder", "albert", "deberta", "vit", "clip"), "encoder"),
    **dict.fromkeys(("t5", "bart"), "encoder-decoder"),
}


@frozen
class _Layers:
    """Layers of all stacks, those of an encoder, and its tokens where they do not change."""

    all: int
    attentions: float = 1
    encoder: int = 0
    encoder_tokens: int | None = None


def shape_of(keys: ConfigKeys, family: Family, tensors: Tensors, *, logits: bool) -> ModelShape:
    """The shape of a model with these parameters."""
    layers = _layers(keys, family)
    count, kv_count, size = heads(keys, family)
    shared = _shared(keys, family)
    return ModelShape(
        name="",
        source=keys.where,
        kind=_KINDS.get(family.style, "decoder"),
        tensors=tensors,
        layers=layers.all,
        hidden=keys.number("hidden_size"),
        heads=count,
        kv_heads=shared or kv_count,
        head_dim=_head_dim(keys, family) or size,
        intermediate=_width(keys, family),
        vocab=1 if keys.find("vocab_size") is None else keys.number("vocab_size"),
        tied=keys.flag("tie_word_embeddings", True),
        positions=_positions(keys, family),
        norm=family.norm,
        norms=_norms(keys, family, layers.attentions),
        mlp=_mlp(keys, family),
        attentions=layers.attentions,
        shared_heads=bool(shared),
        fused_rotary=family.fused_rotary,
        qk_norm=norms_qk(keys, family),
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
        flash=family.flash,
        encoder_layers=layers.encoder,
        encoder_tokens=layers.encoder_tokens,
        window=_window(keys, family),
    )


def _layers(keys: ConfigKeys, family: Family) -> _Layers:
    if family.style in ("t5", "bart"):
        both = stacks(keys, family)
        tokens = keys.optional("max_source_positions") or None
        return _Layers(both.layers, both.attentions, both.encoder, tokens)
    layers = keys.number("num_hidden_layers")
    if keys.find("image_size") is not None and family.style in ("vit", "clip"):
        return _Layers(layers, 1, layers, patches(keys) + family.extra_tokens)
    return _Layers(layers)


def _positions(keys: ConfigKeys, family: Family) -> int | None:
    if family.style == "vit":
        return patches(keys) + family.extra_tokens
    own = keys.optional("max_target_positions")
    return own or keys.optional("max_position_embeddings") or None


def _width(keys: ConfigKeys, family: Family) -> int:
    """The width inside the MLPs; of an encoder-decoder's two the mean over its layers."""
    if family.style != "bart":
        return intermediate(keys)
    both = stacks(keys, family)
    widths = both.encoder * keys.number("encoder_ffn_dim")
    return (widths + both.decoder * keys.number("decoder_ffn_dim")) // both.layers


def _shared(keys: ConfigKeys, family: Family) -> int:
    """The heads that all queries share in Falcon, which does not repeat them; else 0."""
    if family.style != "falcon":
        return 0
    count, kv_count, _ = heads(keys, family)
    if keys.flag("new_decoder_architecture"):
        return kv_count
    return 1 if keys.flag("multi_query") else count


def _norms(keys: ConfigKeys, family: Family, attentions: float) -> float:
    if family.style in ("t5", "bart"):  # one more for each attention
        return 1 + attentions
    if family.parallel and keys.flag(family.parallel):
        return 1
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
        return "gated" if is_gated(keys) else "relu"
    if family.mlp == "gated":
        return "gated"
    act = keys.word("hidden_act") or keys.word("activation_function") or keys.word("activation")
    if not act:
        return family.mlp
    return "python" if act in _PYTHON_GELU else "relu" if act in _RELU else "fused"


def _window(keys: ConfigKeys, family: Family) -> int | None:
    """Longformer's window; the widest where each layer has one."""
    if not family.global_attention:
        return None
    found = keys.find("attention_window")
    widths = found if isinstance(found, list) else [found]
    numbers = [one for one in widths if type(one) is int and one > 0]
    return 1 + max(numbers, default=512)
