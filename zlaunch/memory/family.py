"""What the layers of a family of models are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from zlaunch.memory.shape import Mlp, Norm


@dataclass(frozen=True)
class Family:
    """What the layers of a family are made of. A `None` for a bias: the config says it."""

    style: Literal["decoder", "falcon", "deepseek", "encoder", "deberta", "t5"] = "decoder"
    norm: Norm = "rms"
    norm_bias: bool = False
    norms: int = 2
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp: Mlp = "gated"
    mlp_bias: bool | str = False
    head_bias: bool = False
    extra_positions: int | None = None  # rows beyond max_position_embeddings; None: not learned
    embedding_norm: bool = False
    qk_norm: Literal["", "head", "all"] = ""
    fused_rotary: bool = False
    half_softmax: bool = False
    only_eager: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)


BIASED: dict[str, Any] = {
    "norm": "layer",
    "norm_bias": True,
    "qkv_bias": True,
    "out_bias": True,
    "mlp_bias": True,
}
