"""The header of a safetensors file: names, types and shapes of tensors, without their data.

A file begins with the length of its header, 8 bytes, little-endian; then the header, JSON
(https://github.com/huggingface/safetensors, "Format"). The format itself allows at most
100 MB of header; a file that says more is not read.
"""

from __future__ import annotations

import json
import math
import re
import struct
from typing import Any

from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen
from zlaunch.memory.config_keys import short

PREFIX = 8
LONGEST = 100_000_000
_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F4", "F6_E2M3", "F6_E3M2"), 4),
}
# Buffers that old checkpoints hold beside the parameters.
_BUFFERS = re.compile(
    r"(^|\.)(inv_freq|position_ids|token_type_ids|masked_bias|num_batches_tracked"
    r"|running_mean|running_var|e_score_correction_bias)$"
)
_MASK = re.compile(r"(^|\.)attn(ention)?\.bias$")
_MOST_ELEMENTS = 2**50
_MOST_AXES = 16


@frozen
class Stored:
    """A tensor of a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def trained(self) -> bool:
        """Whether it is a parameter, not a buffer such as a table of rotations or a mask."""
        mask = _MASK.search(self.name) and len(self.shape) == 4
        floating = self.dtype.startswith(("F", "BF"))
        return floating and not mask and not _BUFFERS.search(self.name)


def header_length(prefix: bytes, file_size: int, where: str) -> int:
    """The bytes of header that follow `prefix`, the first 8 bytes of a file."""
    if len(prefix) < PREFIX:
        raise ConfigError("this is no safetensors file: it is shorter than 8 bytes", where=where)
    (length,) = struct.unpack("<Q", prefix)
    if length > LONGEST or length > file_size - PREFIX:
        raise ConfigError(
            f"this is no safetensors file: its header would be {length:,} bytes"
            f" in a file of {file_size:,}",
            where=where,
            hint="a half-finished download, or another format",
        )
    return int(length)


def parse_header(header: bytes, where: str) -> tuple[Stored, ...]:
    """The tensors that `header` lists."""
    try:
        table = json.loads(header)
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else "it is damaged"
        raise ConfigError(
            f"the header of this safetensors file is not JSON: {problem}",
            where=where,
            hint="a half-finished download, or another format",
        ) from None
    if not isinstance(table, dict):
        raise ConfigError("the header of this safetensors file is no object", where=where)
    if not table.keys() - {"__metadata__"}:
        raise ConfigError("this safetensors file holds no tensors", where=where)
    return tuple(_stored(k, v, where) for k, v in table.items() if k != "__metadata__")


def _stored(name: str, entry: Any, where: str) -> Stored:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    dtype = entry.get("dtype") if isinstance(entry, dict) else None
    sizes = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not sizes or not isinstance(shape, list) or not isinstance(dtype, str):
        raise ConfigError(
            f"the header of this safetensors file gives {short(name)} no shape or type",
            where=where,
        )
    if len(shape) > _MOST_AXES or max(shape, default=0) > _MOST_ELEMENTS:
        raise ConfigError(f"{short(name)} cannot have the shape {short(shape)}", where=where)
    if math.prod(shape) > _MOST_ELEMENTS:
        raise ConfigError(f"{short(name)} would have {math.prod(shape):.1e} elements", where=where)
    return Stored(name, dtype, tuple(shape))


def packed(tensors: tuple[Stored, ...]) -> str | None:
    """The type of packed weights, where most of the bytes are in one: a quantized checkpoint."""
    bits: dict[str, int] = {}
    for tensor in tensors:
        bits[tensor.dtype] = bits.get(tensor.dtype, 0) + tensor.elements * _BITS.get(
            tensor.dtype, 8
        )
    if not bits:
        return None
    most = max(bits, key=lambda dtype: bits[dtype])
    return None if most in ("F64", "F32", "F16", "BF16") else most


@frozen
class Index:
    """Which tensors lie in which file, as `model.safetensors.index.json` says."""

    tensors: frozenset[str]
    files: tuple[str, ...]

    def check(self, stored: tuple[Stored, ...], where: str) -> None:
        """An error where the files do not hold what the index says."""
        lost = sorted(self.tensors - {tensor.name for tensor in stored})
        if lost:
            raise ConfigError(
                f"this index names {len(lost)} tensors that none of its files holds, first"
                f" {short(lost[0])}",
                where=where,
                hint="a mixture of two downloads? --model with its config.json plans without them",
            )


def parse_index(index: Any, where: str) -> Index:
    """Read the object of an index."""
    table = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(table, dict) or not table:
        raise ConfigError("this index has no weight_map", where=where)
    names = list(table.values())
    for name in names:
        if not isinstance(name, str) or not name.isprintable():
            raise ConfigError(f"this index names {short(name)} for a file", where=where)
        if "/" in name or "\\" in name or name in ("", ".", ".."):
            raise ConfigError(f"this index names a file outside its folder: {name!r}", where=where)
    return Index(frozenset(table), tuple(sorted(set(names))))
