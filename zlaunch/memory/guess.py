"""A decoder of a given number of parameters, for `--params 7b`. Everything here is a guess."""

from __future__ import annotations

import math

from zlaunch.errors import InputError
from zlaunch.memory.shape import ModelShape, gathered, total
from zlaunch.memory.sizes import billions

# Vocabularies have grown from 32,000 to 128,000 and more; the larger one takes more memory
# for logits, so that the guess errs to the safe side.
_VOCAB = 128_000
_SMALLEST = 1_000_000
# hidden / layers of the open models from 1B to 70B lies between 85 and 140.
_ASPECT = 120
_TIED_BELOW = 4_000_000_000


def guess_shape(parameters: int) -> ModelShape:
    """A Llama-like decoder with exactly `parameters` parameters."""
    if parameters < _SMALLEST:
        hint = f"did you mean {parameters}b?" if parameters < 1000 else "a million at least: 1m"
        raise InputError(f"--params {parameters} is too few for a transformer", hint=hint)
    tied = parameters < _TIED_BELOW
    vocab = min(_VOCAB, max(256, math.isqrt(parameters) * 2))
    tables = 1 if tied else 2
    layers, hidden = _depth_and_width(parameters, vocab * tables)
    inside = (parameters - tables * vocab * hidden - hidden) // layers
    intermediate = max(1, (inside - 4 * hidden * hidden - 2 * hidden) // (3 * hidden))
    parts = [
        (vocab * hidden, tables),
        (hidden * hidden, 4 * layers),
        (hidden * intermediate, 3 * layers),
        (hidden, 2 * layers + 1),
    ]
    left = parameters - total(parts)
    heads = max(1, hidden // 128)
    guess = (
        f"{billions(parameters)} parameters taken for a Llama-like decoder of {layers} layers,"
        f" hidden {hidden}, intermediate {intermediate}, {heads} heads, vocabulary {vocab:,}:"
        " a guess; --model says it exactly"
    )
    return ModelShape(
        name="a guessed decoder",
        source=f"--params {billions(parameters)}",
        kind="decoder",
        tensors=gathered([*parts, (max(0, left), 1)]),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        intermediate=intermediate,
        vocab=vocab,
        tied=tied,
        exact=False,
        notes=(guess,),
    )


def _depth_and_width(parameters: int, table_rows: int) -> tuple[int, int]:
    """Layers and hidden size whose ratio is nearest to what the open models have.

    A layer has 12 h^2: 4 in the attention and 8 in a gated MLP of 8/3 h.
    """
    best: tuple[float, int, int] | None = None
    step = 128 if parameters >= 100_000_000 else 16
    for hidden in range(step, 65_536, step):
        rest = parameters - table_rows * hidden
        layers = round(rest / (12 * hidden * hidden + 2 * hidden))
        if layers < 1:
            break
        off = abs(math.log(hidden / layers / _ASPECT))
        if best is None or off < best[0]:
            best = off, layers, hidden
    if best is None:
        raise InputError(f"--params {parameters} is too few for a transformer", hint="try 10m")
    return best[1], best[2]
