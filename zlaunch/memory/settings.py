"""What of a ds_config decides about memory, with DeepSpeed's own defaults where it is silent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen

Where: TypeAlias = Literal["none", "cpu", "nvme"]

# Bytes that an optimizer keeps for each parameter beside the fp32 weight.
_MOMENTS = {
    **dict.fromkeys(("adam", "adamw", "fusedadam", "lamb", "fusedlamb", "onebitadam"), 8),
    **dict.fromkeys(("onebitlamb", "zerooneadam"), 8),
    **dict.fromkeys(("lion", "adagrad", "muon"), 4),
}
_FP32_ONLY = {"fp32", "float", "float32"}


@frozen
class Settings:
    """A way to train. Counts and sizes of buffers are in elements, as in the ds_config."""

    deepspeed: bool = True
    stage: int = 0
    half: bool = True
    fp32_accumulation: bool = False
    moments: int = 8
    accumulation: int = 1
    contiguous: bool = True
    overlap: bool = False
    reduce_bucket: int = 500_000_000
    sub_group: int = 1_000_000_000
    max_live: int = 1_000_000_000
    persistence: int = 100_000
    optimizer: Where = "none"
    params: Where = "none"
    optimizer_pinned: bool = False
    optimizer_buffers: int = 4
    param_buffers: int = 5
    param_buffer_size: int = 100_000_000
    max_in_cpu: int = 1_000_000_000

    @property
    def element(self) -> int:
        """Bytes of a parameter in the forward pass."""
        return 2 if self.half else 4

    @property
    def accumulated(self) -> int:
        """Bytes of a gradient where it waits for the optimizer."""
        return 4 if self.fp32_accumulation else self.element

    @property
    def autocast(self) -> bool:
        """Whether weights stay in fp32 and only products are in half precision."""
        return self.half and not self.deepspeed


def read_settings(config: Mapping[str, Any] | None, *, half: bool) -> Settings:
    """The settings of a rendered ds_config; None trains with torch's DDP, without DeepSpeed."""
    if config is None:
        return Settings(deepspeed=False, half=half)
    zero = _Section(_section(config, "zero_optimization"))
    stage = zero.number("stage", 0)
    optimizer = _Section(_section(zero.table, "offload_optimizer"))
    params = _Section(_section(zero.table, "offload_param"))
    types = _Section(_section(config, "data_types"))
    return Settings(
        stage=stage,
        half=half,
        fp32_accumulation=types.word("grad_accum_dtype", "") in _FP32_ONLY,
        moments=_moments(_section(config, "optimizer")),
        accumulation=_Section(config).number("gradient_accumulation_steps", 1),
        contiguous=zero.flag("contiguous_gradients", True),
        overlap=zero.flag("overlap_comm", stage == 3),
        reduce_bucket=zero.number("reduce_bucket_size", 500_000_000),
        sub_group=zero.number("sub_group_size", 1_000_000_000),
        max_live=zero.number("stage3_max_live_parameters", 1_000_000_000),
        persistence=zero.number("stage3_param_persistence_threshold", 100_000),
        optimizer=_where(optimizer) if stage else "none",
        params=_where(params) if stage == 3 else "none",
        optimizer_pinned=optimizer.flag("pin_memory", False),
        optimizer_buffers=optimizer.number("buffer_count", 4),
        param_buffers=params.number("buffer_count", 5),
        param_buffer_size=params.number("buffer_size", 100_000_000),
        max_in_cpu=params.number("max_in_cpu", 1_000_000_000),
    )


def is_half(config: Mapping[str, Any]) -> bool:
    """Whether fp16 or bf16 is on, or left to be filled ("auto")."""
    enabled = (_section(config, name).get("enabled") for name in ("fp16", "bf16", "bfloat16"))
    return any(value is True or value == "auto" for value in enabled)


def _section(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}


def _where(section: _Section) -> Where:
    device = section.word("device", "none")
    return "cpu" if device == "cpu" else "nvme" if device == "nvme" else "none"


def _moments(optimizer: Mapping[str, Any]) -> int:
    name = str(optimizer.get("type", "adamw")).lower()
    if name == "sgd":
        return 4 if _section(optimizer, "params").get("momentum") else 0
    return _MOMENTS.get(name, 8)


@frozen
class _Section:
    """A section of the config; what is missing or "auto" has its default."""

    table: Mapping[str, Any]

    def number(self, key: str, otherwise: int) -> int:
        value = self.table.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return otherwise
        if not math.isfinite(value):
            raise ConfigError(f'"{key}" of the ds_config is no number: {value}')
        return int(value) if value >= 0 else otherwise

    def flag(self, key: str, otherwise: bool) -> bool:
        value = self.table.get(key)
        return value if isinstance(value, bool) else otherwise

    def word(self, key: str, otherwise: str) -> str:
        value = self.table.get(key)
        return value.lower() if isinstance(value, str) else otherwise
