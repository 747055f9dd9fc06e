"""The shape of a transformer: what of it decides about memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate
from typing import Literal, TypeAlias

from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen
from zlaunch.memory.sizes import MOST_PARAMETERS

Kind: TypeAlias = Literal["decoder", "encoder", "encoder-decoder"]
# wide: computed and kept in fp32 up to its output, as in Gemma, OLMo 2 and Cohere.
Norm: TypeAlias = Literal["layer", "rms", "wide"]
# relu: one kernel that needs its output only. fused: one kernel that needs its input (gelu,
# silu). python: gelu_new and its like, written out in Python, which keep each step.
# gated: act(gate) * up.
Mlp: TypeAlias = Literal["relu", "fused", "python", "gated"]
Attention: TypeAlias = Literal["eager", "sdpa", "flash"]
# How many elements a tensor has, and how many such tensors there are.
Tensors: TypeAlias = tuple[tuple[int, int], ...]


@frozen
class Experts:
    """A mixture of experts: how many there are, and what one token meets of them."""

    count: int
    per_token: int
    intermediate: int
    shared_intermediate: int = 0
    dense_layers: int = 0


@frozen
class ModelShape:
    """A transformer, as far as its memory goes.

    `tensors` are all parameters. `exact` says that they are counted, not guessed; `notes` say
    what was assumed. `span` is the number of relative positions of DeBERTa's disentangled
    attention, each of whose `span_kinds` keeps tables of scores. Of `layers`, `encoder_layers`
    see `encoder_tokens` tokens however long a sample is, where that is said: Whisper's sound, a
    ViT's patches. `window` is how many tokens one token attends to, where not to all. `towers`
    are models beside it that meet the same samples, each with tokens of its own.
    """

    name: str
    source: str
    kind: Kind
    tensors: Tensors
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool = False
    positions: int | None = None
    norm: Norm = "rms"
    norms: float = 2
    mlp: Mlp = "gated"
    attentions: float = 1
    shared_heads: bool = False
    fused_rotary: bool = False
    qk_norm: bool = False
    half_softmax: bool = False
    hidden_dropout: bool = False
    mlp_dropout: bool = False
    attention_dropout: bool = False
    logits: bool = True
    experts: Experts | None = None
    span: int = 0
    span_kinds: int = 0
    only_eager: bool = False  # Transformers has no sdpa attention for it
    flash: bool = False  # but flash attention
    encoder_layers: int = 0
    encoder_tokens: int | None = None
    window: int | None = None
    towers: tuple[ModelShape, ...] = ()
    exact: bool = True
    notes: tuple[str, ...] = ()

    # A plan asks for these some thousand times, and a checkpoint may list many tensors.
    @cached_property
    def parameters(self) -> int:
        """All of them."""
        return total(self.tensors)

    @cached_property
    def largest_tensor(self) -> int:
        """Elements of the largest parameter, nearly always the embedding."""
        return max(size for size, _ in self.tensors)

    @cached_property
    def _rising(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes of tensors, rising, and the elements of all up to each."""
        ordered = sorted(self.tensors)
        sums = accumulate(size * count for size, count in ordered)
        return tuple(size for size, _ in ordered), tuple(sums)

    def persistent(self, threshold: int) -> int:
        """Elements in tensors so small that ZeRO-3 keeps them whole on every rank."""
        sizes, sums = self._rising
        small = bisect_right(sizes, threshold)
        return sums[small - 1] if small else 0

    @property
    def fixed_tokens(self) -> int | None:
        """The tokens of every sample, where no text decides on them."""
        return self.encoder_tokens if self.encoder_layers == self.layers else None

    @property
    def kept_heads(self) -> int:
        """Heads of the keys and values that are kept: Transformers repeats them, but for Falcon."""
        return self.kv_heads if self.shared_heads else self.heads

    @property
    def embeddings(self) -> int:
        """Elements of the input embedding; a matrix product never reads them."""
        return self.vocab * self.hidden

    @property
    def attention(self) -> Attention:
        """What Transformers chooses by itself."""
        return "eager" if self.only_eager else "sdpa"


def total(tensors: Iterable[tuple[int, int]]) -> int:
    """Elements of all `tensors`."""
    return sum(size * count for size, count in tensors)


def bounded(shape: ModelShape) -> ModelShape:
    """The same shape; an error where it has more parameters than any model."""
    if shape.parameters > MOST_PARAMETERS:
        raise ConfigError(
            f"this model would have {shape.parameters:.1e} parameters, more than any: at most"
            f" {MOST_PARAMETERS:.0e} are planned for",
            where=shape.source,
            hint="one of its sizes is a mistake",
        )
    return shape


def gathered(tensors: Iterable[tuple[int, int]]) -> Tensors:
    """The same tensors with equal sizes counted together, largest first; empty ones left out."""
    counts: dict[int, int] = {}
    for size, count in tensors:
        counts[size] = counts.get(size, 0) + count
    return tuple(sorted(((s, n) for s, n in counts.items() if s and n), reverse=True))
