"""Quantized checkpoints: how many parameters their packed tensors mean.

Each method keeps a matrix as one packed tensor and some of scales beside it:

    GPTQ, AWQ            x.qweight, int32, 32 / bits numbers in each; x.qzeros, x.scales, x.g_idx
    compressed-tensors   x.weight_packed, int32; x.weight_scale, x.weight_shape, ...
    bitsandbytes         x.weight, uint8, two numbers in each, and x.weight.absmax, ...; or int8
                         and x.SCB
    FP8                  x.weight, and x.weight_scale or x.weight_scale_inv
    MXFP4                x_blocks, uint8, two numbers in each; x_scales

Nobody trains packed weights: what is planned is the model unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

from zlaunch.memory.safetensors import Stored

_PACKED = {"qweight", "weight_packed"}
# What lies beside a packed tensor of the same module, by the packed one's last name.
_BESIDE = {
    "qweight": {"qzeros", "scales", "g_idx", "bias_qzeros"},
    "weight_packed": {
        *("weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx"),
        *("weight_global_scale", "input_global_scale", "input_scale", "output_scale"),
    },
    "weight": {
        *("SCB", "weight_format", "weight_scale", "weight_scale_inv", "input_scale"),
        *("output_scale", "weight_zero_point", "scale", "activation_scale"),
    },
}
_BYTES = {"U8", "I8", "F8_E4M3", "F8_E5M2", "I32", "U32", "I16", "I64"}


def config_note(table: Mapping[str, Any]) -> tuple[str, ...]:
    """What has to be said of a config that has a `quantization_config`."""
    section = table.get("quantization_config")
    if not isinstance(section, dict) or not section:
        return ()
    method = section.get("quant_method")
    named = method if isinstance(method, str) and method.isprintable() else "quantization_config"
    bits = config_bits(table)
    said = f"{named[:40]}, {bits} bits" if bits else named[:40]
    return (
        (
            f"its weights are packed ({said}), which nobody trains in full: planned is the model"
            " unpacked; adapters on packed weights (QLoRA) are not planned"
        ),
    )


def config_bits(table: Mapping[str, Any]) -> int | None:
    """The bits of a weight that a `quantization_config` names."""
    section = table.get("quantization_config")
    if not isinstance(section, dict):
        return None
    groups = section.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if isinstance(weights, dict):
        section = {**weights, **section}
    if section.get("load_in_4bit") is True:
        return 4
    found = [section.get(key) for key in ("bits", "num_bits", "w_bit", "weight_bits", "nbits")]
    return next((n for n in found if type(n) is int and 1 <= n <= 16), None)


def is_quantized(stored: tuple[Stored, ...]) -> bool:
    """Whether any of these tensors is packed, by its name or its type."""
    names = {tensor.name for tensor in stored}
    return any(_is_packed(tensor, names) for tensor in stored)


def unpacked(stored: tuple[Stored, ...], bits: int | None) -> tuple[Stored, ...] | None:
    """The tensors that these mean once they are unpacked; None where it cannot be told."""
    names = {tensor.name for tensor in stored}
    by_name = {tensor.name: tensor for tensor in stored}
    found: list[Stored] = []
    for tensor in stored:
        if _is_beside(tensor.name, names):
            continue
        if not _is_packed(tensor, names):
            found.append(tensor)
            continue
        whole = _whole(tensor, by_name, bits)
        if whole is None:
            return None
        found.append(whole)
    return tuple(found)


def _is_packed(tensor: Stored, names: Set[str]) -> bool:
    base, _, leaf = tensor.name.rpartition(".")
    if leaf in _PACKED:
        return True
    if tensor.name.endswith("_blocks"):
        return f"{tensor.name.removesuffix('_blocks')}_scales" in names
    if tensor.dtype not in _BYTES or tensor.dtype in ("I64", "I16"):
        return False
    scales = (f"{base}.{name}" for name in _BESIDE["weight"])
    return leaf == "weight" and (
        tensor.dtype in ("U8", "I8") or any(name in names for name in scales)
    )


def _is_beside(name: str, names: Set[str]) -> bool:
    """Whether this tensor only says how another one is to be unpacked."""
    base, _, leaf = name.rpartition(".")
    for packed, beside in _BESIDE.items():
        if leaf in beside and f"{base}.{packed}" in names:
            return True
    if name.endswith("_scales") and f"{name.removesuffix('_scales')}_blocks" in names:
        return True
    return any(upper in names for upper in _above(name))


def _above(name: str) -> Iterator[str]:
    """`x.weight` of `x.weight.absmax` and of `x.weight.quant_state.bitsandbytes__nf4`."""
    for mark in (".weight.absmax", ".weight.quant_", ".weight.nested_"):
        base, found, _ = name.partition(mark)
        if found:
            yield f"{base}.weight"


def _whole(tensor: Stored, by_name: Mapping[str, Stored], bits: int | None) -> Stored | None:
    """A packed tensor as the parameter that it means."""
    base, _, leaf = tensor.name.rpartition(".")
    name = f"{base}.weight" if leaf in _PACKED else tensor.name
    if leaf == "qweight":
        shape = _of_qweight(tensor, base, by_name, bits)
        return None if shape is None else Stored(name, "F16", shape)
    if leaf == "weight_packed":
        if bits is None or len(tensor.shape) != 2:
            return None
        per_number = 8 if tensor.dtype in ("U8", "I8") else 32
        rows, columns = tensor.shape
        return Stored(name, "F16", (rows, columns * per_number // bits))
    if tensor.name.endswith("_blocks") or _in_fours(tensor, by_name):
        return Stored(name, "F16", (tensor.elements * 2,))
    return replace(tensor, dtype="F16")


def _in_fours(tensor: Stored, by_name: Mapping[str, Stored]) -> bool:
    """Whether this is bitsandbytes's form of 4 bits: bytes in one column, and their scales."""
    return tensor.dtype == "U8" and f"{tensor.name}.absmax" in by_name


def _of_qweight(
    tensor: Stored, base: str, by_name: Mapping[str, Stored], bits: int | None
) -> tuple[int, ...] | None:
    """GPTQ packs along the rows, AWQ along the columns; the scales have all columns."""
    scales = by_name.get(f"{base}.scales")
    if len(tensor.shape) != 2 or scales is None or len(scales.shape) != 2:
        return None
    rows, columns = tensor.shape
    if scales.shape[1] != columns:
        return rows, scales.shape[1]
    index = by_name.get(f"{base}.g_idx")
    if index is not None and len(index.shape) == 1:
        return index.shape[0], columns
    return None if bits is None else (rows * 32 // bits, columns)
