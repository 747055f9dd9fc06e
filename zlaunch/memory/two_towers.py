"""CLIP and SigLIP: a tower for images and one for text, trained side by side."""

from __future__ import annotations

from dataclasses import replace

from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.families import FAMILIES, defaults
from zlaunch.memory.geometry import shape_of
from zlaunch.memory.model_heads import labels
from zlaunch.memory.parts import linear
from zlaunch.memory.shape import ModelShape, gathered
from zlaunch.memory.vision_tensors import clip_vision, siglip_vision, text_tower

_NEITHER = "another part than both towers is on top of this: both are counted"
TWO_TOWERS = ("clip", "siglip")


def two_towers(keys: ConfigKeys, name: str) -> ModelShape:
    """Both towers: the text's shape, with the parameters of both."""
    family = FAMILIES[name]
    if keys.architecture.endswith("ForImageClassification"):
        return _of_images(keys, name)
    text = keys.inside(keys.section("text_config"), defaults(f"{name}_text_model"))
    images = keys.inside(keys.section("vision_config"), defaults(f"{name}_vision_model"))
    hidden, wide = text.number("hidden_size"), images.number("hidden_size")
    if name == "clip":
        outer = keys.number("projection_dim", 512)
        tower, ends = clip_vision(images), [(1, 1), (wide * outer, 1), (hidden * outer, 1)]
    else:
        outer = text.number("projection_size", hidden)
        tower, ends = siglip_vision(images), [(1, 2), *linear(hidden, outer, True)]
    beside = shape_of(images, family, gathered(tower), logits=False)
    shape = shape_of(text, family, gathered([*text_tower(text), *tower, *ends]), logits=False)
    both = keys.architecture.endswith("Model") or not keys.architecture
    note = () if both else (_NEITHER,)
    return replace(shape, name=name, towers=(beside,), exact=both, notes=note)


def _of_images(keys: ConfigKeys, name: str) -> ModelShape:
    """The tower for images alone, with a classifier."""
    images = keys.inside(keys.section("vision_config"), defaults(f"{name}_vision_model"))
    tower = clip_vision(images) if name == "clip" else siglip_vision(images)
    classify = linear(images.number("hidden_size"), labels(keys), True)
    tensors = gathered([*tower, *classify])
    return replace(shape_of(images, FAMILIES[name], tensors, logits=False), name=name)
