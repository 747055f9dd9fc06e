"""The parameters of models of images, as (elements, how many)."""

from __future__ import annotations

from collections.abc import Callable

from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.family import Family
from zlaunch.memory.parts import Parts, intermediate, linear, norm, times


def patches(keys: ConfigKeys) -> int:
    """The patches of an image."""
    side = max(1, keys.number("image_size") // keys.number("patch_size"))
    return side * side


def layers(keys: ConfigKeys, qkv_bias: bool = True) -> Parts:
    """The layers of an encoder with biases everywhere."""
    hidden, width = keys.number("hidden_size"), intermediate(keys)
    layer = times(linear(hidden, hidden, qkv_bias), 3) + linear(hidden, hidden, True)
    layer += linear(hidden, width, True) + linear(width, hidden, True) + norm(hidden, True) * 2
    return times(layer, keys.number("num_hidden_layers"))


def _patch(keys: ConfigKeys, bias: bool, depth: int = 1) -> Parts:
    """What turns a patch into a token."""
    side, hidden = keys.number("patch_size"), keys.number("hidden_size")
    return linear(depth * keys.number("num_channels", 3) * side * side, hidden, bias)


def vit(keys: ConfigKeys, family: Family) -> Parts:
    """ViT and DeiT."""
    hidden, extra = keys.number("hidden_size"), family.extra_tokens
    parts = layers(keys, keys.flag("qkv_bias", True)) + _patch(keys, bias=True)
    parts += [((patches(keys) + extra) * hidden, 1), (hidden, extra)]
    return parts + norm(hidden, True)


def clip_vision(keys: ConfigKeys) -> Parts:
    """The tower of CLIP, which has a norm before its layers too."""
    hidden = keys.number("hidden_size")
    parts = layers(keys) + _patch(keys, bias=False) + norm(hidden, True) * 2
    return [*parts, ((patches(keys) + 1) * hidden, 1), (hidden, 1)]


def siglip_vision(keys: ConfigKeys) -> Parts:
    """The tower of SigLIP, whose head is an attention of one query."""
    hidden, width = keys.number("hidden_size"), intermediate(keys)
    parts = layers(keys) + _patch(keys, bias=True) + norm(hidden, True)
    parts += [(patches(keys) * hidden, 1)]
    if keys.flag("vision_use_head", True):
        parts += [(hidden, 1), *linear(hidden, 3 * hidden, True), *linear(hidden, hidden, True)]
        parts += linear(hidden, width, True) + linear(width, hidden, True) + norm(hidden, True)
    return parts


def text_tower(keys: ConfigKeys) -> Parts:
    """The text side of CLIP and SigLIP."""
    hidden = keys.number("hidden_size")
    tables = [(keys.number("vocab_size") * hidden, 1)]
    tables += [(keys.number("max_position_embeddings") * hidden, 1)]
    return layers(keys) + tables + norm(hidden, True)


def _llama4_vision(keys: ConfigKeys) -> Parts:
    hidden, outer = keys.number("hidden_size"), keys.number("projector_output_dim")
    parts = layers(keys) + _patch(keys, bias=False) + norm(hidden, True) * 2
    parts += [((patches(keys) + 1) * hidden, 1), (hidden, 1)]
    inner = keys.number("projector_input_dim")
    return parts + linear(intermediate(keys), inner, False) + linear(inner, outer, False)


def _qwen2_vision(keys: ConfigKeys, text: int) -> Parts:
    hidden = keys.number("embed_dim")
    width = hidden * keys.number("mlp_ratio")
    layer = linear(hidden, 3 * hidden, True) + linear(hidden, hidden, True)
    layer += linear(hidden, width, True) + linear(width, hidden, True) + norm(hidden, True) * 2
    parts = times(layer, keys.number("depth"))
    side, merged = keys.number("patch_size"), hidden * keys.number("spatial_merge_size") ** 2
    voxel = keys.number("temporal_patch_size") * keys.number("in_channels", 3) * side * side
    parts += linear(voxel, hidden, False) + norm(hidden, True)
    return (
        parts
        + linear(merged, merged, True)
        + linear(merged, keys.number("hidden_size", text), True)
    )


def _qwen25_vision(keys: ConfigKeys, text: int) -> Parts:
    hidden, width = keys.number("hidden_size"), keys.number("intermediate_size")
    layer = linear(hidden, 3 * hidden, True) + linear(hidden, hidden, True)
    layer += times(linear(hidden, width, True), 2) + linear(width, hidden, True)
    parts = times(layer + norm(hidden, False) * 2, keys.number("depth"))
    side, merged = keys.number("patch_size"), hidden * keys.number("spatial_merge_size") ** 2
    voxel = keys.number("temporal_patch_size") * keys.number("in_channels", 3) * side * side
    parts += linear(voxel, hidden, False) + norm(hidden, False) + linear(merged, merged, True)
    return parts + linear(merged, keys.number("out_hidden_size", text), True)


def _gemma3(keys: ConfigKeys, text: int) -> Parts:
    hidden = keys.number("hidden_size")
    return [*siglip_vision(keys), (hidden * text, 1), (hidden, 1)]


def _llava(keys: ConfigKeys, text: int) -> Parts:
    return (
        clip_vision(keys)
        + linear(keys.number("hidden_size"), text, True)
        + linear(text, text, True)
    )


def _llava_next(keys: ConfigKeys, text: int) -> Parts:
    return [*_llava(keys, text), (text, 1)]


def _paligemma(keys: ConfigKeys, text: int) -> Parts:
    outer = keys.number("projection_dim", text)
    return siglip_vision(keys) + linear(keys.number("hidden_size"), outer, True)


def _llama4(keys: ConfigKeys, text: int) -> Parts:
    return _llama4_vision(keys) + linear(keys.number("vision_output_dim"), text, False)


# Models of images and text: the kind of their text and of their tower where the config leaves
# it out, and what the tower and the way from it to the text are made of.
TOWERS: dict[str, tuple[str, str, Callable[[ConfigKeys, int], Parts]]] = {
    "qwen2_vl": ("qwen2_vl_text", "qwen2_vl_vision", _qwen2_vision),
    "qwen2_5_vl": ("qwen2_5_vl_text", "qwen2_5_vl_vision", _qwen25_vision),
    "gemma3": ("gemma3_text", "siglip_vision_model", _gemma3),
    "llava": ("llama", "clip_vision_model", _llava),
    "llava_next": ("llama", "clip_vision_model", _llava_next),
    "paligemma": ("gemma", "siglip_vision_model", _paligemma),
    "llama4": ("llama4_text", "llama4_vision_model", _llama4),
}


def plain_tower(keys: ConfigKeys) -> Parts:
    """Any other tower, as if it were a ViT."""
    hidden = keys.number("hidden_size", keys.optional("embed_dim") or None)
    count = keys.number("num_hidden_layers", keys.optional("depth") or None)
    width, patch = intermediate(keys), keys.number("patch_size", 14)
    layer = times(linear(hidden, hidden, True), 4) + linear(hidden, width, True)
    layer += linear(width, hidden, True) + norm(hidden, True) * 2
    side = keys.number("image_size", 336) // patch
    ends = [*linear(3 * patch * patch, hidden, True), (side * side * hidden, 1)]
    return times(layer, count) + ends + norm(hidden, True)
