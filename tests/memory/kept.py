"""Counts the bytes that autograd keeps for a real model's backward pass.

On the CPU, with the kernels that a GPU would take: dropout that keeps a mask of bytes, and
attention that keeps no scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as functional
from torch.autograd.graph import saved_tensors_hooks


def kept_bytes(model: Any, run: Callable[[Any], Any]) -> int:
    """Bytes of all tensors that `run(model)` leaves for the backward pass, parameters apart."""
    own = {_storage(tensor) for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, tuple[int, Any]] = {}  # the tensor too: its storage must not be used again

    def pack(tensor: Any) -> Any:
        if _storage(tensor) not in own:
            kept[_storage(tensor)] = tensor.untyped_storage().nbytes(), tensor
        return tensor

    with _as_on_a_gpu(), saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run(model)
    del result
    return sum(size for size, _ in kept.values())


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


@contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    dropout, attention = functional.dropout, functional.scaled_dot_product_attention
    functional.dropout = _dropout  # type: ignore[assignment]
    functional.scaled_dot_product_attention = _attention  # type: ignore[assignment]
    try:
        yield
    finally:
        functional.dropout = dropout
        functional.scaled_dot_product_attention = attention


def _dropout(tensor: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return torch.native_dropout(tensor, p, True)[0] if training and p > 0 else tensor


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
    if key.shape[1] == 1:  # Falcon's one head is broadcast, not copied
        key, value = (t.expand(-1, query.shape[1], -1, -1) for t in (key, value))
    elif key.shape[1] != query.shape[1]:
        repeats = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(repeats, 1) for t in (key, value))
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return flash(query, key, value, 0.0, True)[0]
