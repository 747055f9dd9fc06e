"""The shape of a model from the tensors of its checkpoint, with or without a config.json."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from zlaunch.errors import ConfigError
from zlaunch.memory.model_config import ESTIMATE
from zlaunch.memory.quantized import is_quantized, unpacked
from zlaunch.memory.safetensors import Stored, packed
from zlaunch.memory.shape import ModelShape, Tensors, bounded, gathered

_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d{1,4})\.")
_EMBEDDING = re.compile(
    r"(embed_tokens|wte|word_embeddings?|embed_in|shared|tok_embeddings)\.weight$"
)
_HEAD = re.compile(r"(lm_head|embed_out|output)\.weight$")


def with_stored(
    shape: ModelShape, stored: tuple[Stored, ...], where: str, bits: int | None = None
) -> ModelShape:
    """`shape` with the parameters counted in its checkpoint, which is right for any family.

    `bits` are those that the config names, where its weights are packed.
    """
    whole = unpacked(stored, bits) if is_quantized(stored) else stored
    if whole is None or packed(whole) is not None:
        note = f"how the weights of {where} are packed is not known: the config says their number"
        return replace(shape, notes=(*shape.notes, note))
    tensors = _parameters(whole, where)
    known = tuple(note for note in shape.notes if ESTIMATE not in note)
    counted = bounded(replace(shape, tensors=tensors, exact=True, notes=known, source=where))
    if whole is not stored:
        known = (*known, f"{where} holds packed weights: {counted.parameters:,} once unpacked")
        counted = replace(counted, notes=known)
    if shape.exact and counted.parameters != shape.parameters:
        # A head that the config's architecture does not have, or the other way round.
        note = f"{where} holds {counted.parameters:,} parameters, the config {shape.parameters:,}"
        return replace(counted, notes=(*known, note))
    return counted


def shape_of_stored(stored: tuple[Stored, ...], where: str) -> ModelShape:
    """A shape from tensors alone: exact in its parameters, guessed in its heads."""
    if is_quantized(stored) or packed(stored) is not None:
        whole = unpacked(stored, None)
        if whole is None or packed(whole) is not None:
            raise ConfigError(
                f"these weights are packed as {packed(stored)}, so their number says nothing",
                where=where,
                hint="give the folder that has the config.json too, or --params",
            )
        shape = shape_of_stored(whole, where)
        note = "packed weights, which nobody trains in full: planned is the model unpacked"
        return replace(shape, notes=(*shape.notes, note))
    embedding = _embedding(stored, where)
    vocab, hidden = embedding.shape
    layers = _layers(stored, where)
    wide = [
        t.shape for t in stored if len(t.shape) == 2 and hidden in t.shape and t is not embedding
    ]
    widths = Counter(max(shape) for shape in wide if vocab not in shape and max(shape) > hidden)
    head_dim = 128 if hidden >= 2048 and hidden % 128 == 0 else 64
    heads = max(1, hidden // head_dim)
    gated = any("gate" in t.name for t in stored)
    note = (
        f"no config.json beside it: {heads} heads of {head_dim}"
        f" and a {'gated' if gated else 'plain'} MLP are guessed from the tensors"
    )
    shape = ModelShape(
        name="a checkpoint",
        source=where,
        kind="decoder",
        tensors=_parameters(stored, where),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        intermediate=max(widths, key=lambda w: widths[w]) if widths else 4 * hidden,
        vocab=vocab,
        tied=not any(_HEAD.search(t.name) for t in stored),
        norm="rms" if gated else "layer",
        mlp="gated" if gated else "fused",
        exact=True,
        notes=(note,),
    )
    return bounded(shape)


def _parameters(stored: tuple[Stored, ...], where: str) -> Tensors:
    tensors = gathered((t.elements, 1) for t in stored if t.trained)
    if not tensors:
        raise ConfigError("there is no parameter in this checkpoint", where=where)
    return tensors


def _embedding(stored: tuple[Stored, ...], where: str) -> Stored:
    tables = [t for t in stored if len(t.shape) == 2 and _EMBEDDING.search(t.name)]
    if not tables or 0 in tables[0].shape:
        raise ConfigError(
            "no word embedding is among these tensors, so the shape cannot be seen",
            where=where,
            hint="give the folder that has the config.json too, or --params",
        )
    return max(tables, key=lambda t: t.elements)


def _layers(stored: tuple[Stored, ...], where: str) -> int:
    numbers = {found[1] for t in stored if (found := _LAYER.search(t.name))}
    if not numbers:
        raise ConfigError(
            "no layers are numbered among these tensors, so the shape cannot be seen",
            where=where,
            hint="give the folder that has the config.json too, or --params",
        )
    return len(numbers)
