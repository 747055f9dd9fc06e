"""What the layers of a family of models are made of."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from zlaunch.frozen import frozen
from zlaunch.memory.shape import Mlp, Norm

Style: TypeAlias = Literal[
    "decoder", "falcon", "deepseek", "encoder", "albert", "deberta", "t5", "bart", "vit", "clip"
]


@frozen
class Family:
    """What the layers of a family are made of. A word for a bias: the key that says it."""

    style: Style = "decoder"
    norm: Norm = "rms"
    norm_bias: bool = False
    affine: bool = True  # whether its norms have parameters; OLMo's have none
    norms: int = 2
    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp: Mlp = "gated"
    mlp_bias: bool | str = False
    head_bias: bool | str = False
    extra_positions: int | None = None  # rows beyond max_position_embeddings; None: not learned
    embedding_norm: bool = False
    qk_norm: Literal["", "head", "all"] = ""
    qk_norm_if: str = ""  # the key that says whether queries and keys are normalized
    qk_norm_each: bool = False  # whether each head has a norm of its own
    multi_query: bool = False  # where the key of this name is true, all heads share one
    parallel: str = ""  # the key that says that attention and MLP share one norm
    router_bias: bool = False
    expert_bias: bool = False
    sinks: bool = False  # a number for each head, as GPT-OSS has
    fused_rotary: bool = False
    half_softmax: bool = False
    only_eager: bool = False  # no sdpa attention in Transformers
    flash: bool = False  # but flash attention
    pooler: bool = True  # of an encoder without another head
    global_attention: bool = False  # Longformer's second set of projections
    key_bias: bool = True  # Whisper's keys have none
    positions: bool = True  # whether an encoder-decoder's are in a parameter, learned or not
    ends: tuple[
        Literal["first", "last"], ...
    ] = ()  # norms of a stack: at the embedding, at the end
    tables_each: bool = False  # whether every layer of T5 has a table of positions
    extra_tokens: int = 1  # of a ViT, beside its patches


BIASED: dict[str, Any] = {
    "norm": "layer",
    "norm_bias": True,
    "qkv_bias": True,
    "out_bias": True,
    "mlp_bias": True,
}
