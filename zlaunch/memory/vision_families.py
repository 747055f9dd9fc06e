"""Models of images, and of images beside text."""

from __future__ import annotations

from zlaunch.memory.family import BIASED, Family

_VIT = Family(style="vit", **BIASED, mlp="fused")
_CLIP = Family(style="clip", **BIASED, mlp="python")

VISION: dict[str, Family] = {
    "vit": _VIT,
    "vit_msn": Family(style="vit", **BIASED, mlp="fused", pooler=False),
    "deit": Family(style="vit", **BIASED, mlp="fused", extra_tokens=2),
    "clip": _CLIP,
    "siglip": Family(style="clip", **BIASED, mlp="fused"),
}
