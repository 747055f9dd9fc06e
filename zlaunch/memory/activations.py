"""What the forward pass keeps for the backward pass.

Per token and layer of a transformer (Korthikanti et al. 2022, "Reducing Activation
Recomputation in Large Transformer Models", section 4.1, counts 34 h + 5 a s bytes for a layer
of GPT in half precision). The same is counted here tensor by tensor, so that it holds for
other norms, activations and attentions: what autograd saves, as the code of transformers is
written. h hidden, a heads of d, s tokens of a sequence, i width of the MLP, e bytes.

    layer norm       2 e h: input, output
    RMS norm         4 h + 2 e h: input in fp32, normalized, output
    attention        4 e a d: queries, keys, values, output (keys and values as repeated)
    eager attention  + e a s: the softmax; with dropout + (1 + e) a s; where the softmax is in
                     fp32, 4 + e in all, and 1 more with dropout
    MLP              e i x 1 relu, 2 gelu, 5 gelu_new (written in Python), 4 gated
    its dropout      (1 + e) i, only in T5
    dropout          1 h after the attention, 1 h after the MLP: the masks
    disentangled     2 e a 2k + 2 e 2k h/s + e h: DeBERTa's scores and tables of 2k positions,
                     and (1 + e) 2k h a layer however many samples there are
"""

from __future__ import annotations

from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.memory.settings import Settings
from zlaunch.memory.shape import Attention, ModelShape
from zlaunch.memory.terms import Term, present

_MLP_TENSORS = {"relu": 1, "fused": 2, "python": 5, "gated": 4}


@frozen
class Workload:
    """One micro step of one rank: samples, tokens of each, and how they are computed."""

    micro_batch: int
    sequence: int
    checkpointing: bool = False
    attention: Attention = "sdpa"


@frozen
class Activations:
    """Bytes that the layers keep, that one of them takes anew, and that the loss takes."""

    layers: int
    recomputed: int
    loss: int

    def at_the_loss(self) -> tuple[Term, ...]:
        """Before any layer is recomputed."""
        return present(
            Term("activations", "layers", self.layers),
            Term("activations", "logits and loss", self.loss),
        )

    def in_a_layer(self) -> tuple[Term, ...]:
        """Once the logits are gone, and the last layer is computed anew."""
        return present(
            Term("activations", "layers", self.layers),
            Term("activations", "one layer recomputed", self.recomputed),
        )


def activations(shape: ModelShape, settings: Settings, work: Workload) -> Activations:
    """What is kept at the end of a forward pass."""
    layers = recomputed = 0
    for stack, its_work in stacks(shape, work):
        kept, again = _of_stack(stack, settings, its_work)
        layers, recomputed = layers + kept, max(recomputed, again)
    return Activations(layers, recomputed, _loss(shape, settings, work.micro_batch * work.sequence))


def stacks(shape: ModelShape, work: Workload) -> list[tuple[ModelShape, Workload]]:
    """The stacks of layers that meet different numbers of tokens, as shapes of their own."""
    found = [(shape, work)]
    if shape.encoder_tokens is not None:
        theirs = replace(work, sequence=shape.encoder_tokens)
        decoders = shape.layers - shape.encoder_layers
        encoder = replace(shape, layers=shape.encoder_layers, norms=2, attentions=1)
        decoder = replace(shape, layers=decoders, norms=3, attentions=2)
        found = [(encoder, theirs)] if shape.encoder_layers else []
        found += [(decoder, work)] if decoders else []
    return found + [one for tower in shape.towers for one in stacks(tower, work)]


def _of_stack(shape: ModelShape, settings: Settings, work: Workload) -> tuple[int, int]:
    """Bytes that the layers keep, and that one of them takes anew."""
    tokens, element = work.micro_batch * work.sequence, settings.element
    layer = tokens * layer_bytes(shape, settings, work) + table_bytes(shape, settings)
    outside = 2 * element * tokens * shape.hidden  # the embedding's output and the last norm's
    if work.checkpointing:
        inputs = tokens * shape.hidden * (4 if settings.autocast else element)
        return shape.layers * inputs + outside, layer
    return shape.layers * layer + outside, 0


def layer_bytes(shape: ModelShape, settings: Settings, work: Workload) -> int:
    """Bytes that one layer keeps for one token."""
    element = settings.element
    # In DeepSpeed's half precision everything is; autocast keeps norms and residuals in fp32.
    wide = 4 if settings.autocast else element
    kept: float = shape.norms * _norm(shape, wide)
    if settings.autocast:  # and casts the input of every projection anew
        kept += element * shape.hidden * (3 + (2 if shape.mlp == "gated" else 1))
    kept += _attention(shape, settings, work)
    kept += _mlp(shape, element)
    if shape.hidden_dropout:
        kept += 2 * shape.hidden
    return int(kept)


def table_bytes(shape: ModelShape, settings: Settings) -> int:
    """Bytes that one layer keeps however many samples there are: DeBERTa's relative positions."""
    return (1 + settings.element) * shape.span * shape.hidden


def _norm(shape: ModelShape, wide: int) -> int:
    if shape.norm == "layer":
        return 2 * wide * shape.hidden
    inner = 4 + wide if shape.norm == "rms" else 8
    return (inner + wide) * shape.hidden


def _attention(shape: ModelShape, settings: Settings, work: Workload) -> float:
    element, width = settings.element, shape.heads * shape.head_dim
    kept: float = element * (2 * width + 2 * shape.kept_heads * shape.head_dim)
    if shape.qk_norm:
        kept += 6 * (width + shape.kv_heads * shape.head_dim)
    flash = shape.flash and work.attention == "flash"
    if work.attention == "eager" or (shape.only_eager and not flash):
        seen = min(work.sequence, shape.window or work.sequence)
        kept += shape.heads * seen * _scores(shape, settings)
    elif shape.fused_rotary:  # the fused projection stays, since the values are a view of it
        kept += 2 * element * width
    if shape.span:
        per_kind = shape.heads * shape.span + shape.span * shape.hidden / work.sequence
        kept += element * (shape.span_kinds * per_kind + shape.hidden)
    return kept * shape.attentions


def _scores(shape: ModelShape, settings: Settings) -> int:
    """Bytes for one score: the softmax, its copy in the precision of the values, dropout."""
    element, dropout = settings.element, shape.attention_dropout
    in_fp32 = not shape.half_softmax or settings.autocast
    if in_fp32 and element < 4:
        return 4 + element + (1 if dropout else 0)
    return element + (1 + element if dropout else 0)


def _mlp(shape: ModelShape, element: int) -> float:
    tensors = _MLP_TENSORS[shape.mlp]
    dense = tensors * element * shape.intermediate
    if shape.mlp_dropout:  # between the activation and the way down
        dense += (1 + element) * shape.intermediate
    mixture = shape.experts
    if mixture is None:
        return dense
    # Each token is copied to its experts, and their answers are weighted before they are added.
    sparse = mixture.per_token * element * (tensors * mixture.intermediate + 3 * shape.hidden)
    sparse += tensors * element * mixture.shared_intermediate
    of_dense = mixture.dense_layers / shape.layers
    return of_dense * dense + (1 - of_dense) * sparse


def _loss(shape: ModelShape, settings: Settings, tokens: int) -> int:
    """Logits over the vocabulary, when their gradient is computed.

    The model's own (e), in fp32 (4, not again where they are), log-probabilities (4), and the
    gradients of these two (8).
    """
    if not shape.logits:
        return 0
    fp32_copy = 4 if settings.element < 4 else 0
    return tokens * shape.vocab * (settings.element + fp32_copy + 4 + 8)
