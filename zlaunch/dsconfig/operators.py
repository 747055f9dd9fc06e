"""Which compiled operators DeepSpeed loads when it trains with a ds_config.

As DeepSpeed 0.19.8 has it: `_configure_basic_optimizer` and `get_optimizer_configuration` of its
engine, what swaps to NVMe, and `comm/torch.py`. What the user's script asks of it beyond its
ds_config is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zlaunch.spec.environment import DeviceKind, Target

# By its name, which is that of its folder in torch's cache, the class that builds it.
BUILDERS = {
    "async_io": "AsyncIOBuilder",  # which builds pin_memory too
    "cpu_adagrad": "CPUAdagradBuilder",
    "cpu_adam": "CPUAdamBuilder",
    "cpu_lion": "CPULionBuilder",
    "deepspeed_shm_comm": "ShareMemCommBuilder",
    "fused_adam": "FusedAdamBuilder",
    "fused_lamb": "FusedLambBuilder",
    "fused_lion": "FusedLionBuilder",
    "gds": "GDSBuilder",
    "quantizer": "QuantizerBuilder",
}
_ONLY_CUDA = {"fused_lamb", "fused_lion", "gds", "quantizer"}
_ADAM = {"adam", "adamw", "muon"}  # Muon takes Adam for what is no matrix
_QUANTIZED = (
    "zero_quantized_weights",
    "zero_quantized_nontrainable_weights",
    "zero_quantized_gradients",
)


def operators_of(
    config: Mapping[str, Any] | None, device: DeviceKind, target: Target = "plain"
) -> tuple[str, ...]:
    """Return the names of the operators that every rank loads, in the order that it does.

    `config` None: it trains with DeepSpeed by a config that is not known. Accelerate does not
    enter DeepSpeed on CPUs, so nothing is loaded there.
    """
    on_cpu = device == "cpu"
    if on_cpu and target == "accelerate":
        return ()
    config = config or {}
    zero = _section(config, "zero_optimization")
    names = ["deepspeed_shm_comm"] if on_cpu else []
    names += _of_optimizer(config, zero, target)
    names += _of_stage_3(config, zero)
    return tuple(name for name in dict.fromkeys(names) if not (on_cpu and name in _ONLY_CUDA))


def _of_optimizer(
    config: Mapping[str, Any], zero: Mapping[str, Any], target: Target
) -> tuple[str, ...]:
    optimizer = _section(config, "optimizer")
    kind = str(optimizer.get("type", "")).lower()
    old = zero.get("cpu_offload") is True  # its name before offload_optimizer
    offloaded = old or _device(zero, "offload_optimizer") in {"cpu", "nvme"}
    if kind in _ADAM:
        if _section(optimizer, "params").get("torch_adam"):
            return ()
        return ("cpu_adam",) if offloaded else ("fused_adam",)
    if kind == "adagrad":
        return ("cpu_adagrad",) if offloaded else ()
    if kind == "lion":
        return ("cpu_lion",) if offloaded else ("fused_lion",)
    if kind == "lamb":
        return ("fused_lamb",)
    if not kind and target != "plain" and offloaded:
        # Accelerate, for the Trainer too, turns a torch optimizer into DeepSpeed's; hardly ever
        # into another one than this.
        return ("cpu_adam",) if config.get("zero_force_ds_cpu_optimizer", True) else ()
    return ()


def _of_stage_3(config: Mapping[str, Any], zero: Mapping[str, Any]) -> tuple[str, ...]:
    if zero.get("stage") != 3:
        return ()
    names = []
    parameters, states = (_device(zero, f"offload_{what}") for what in ("param", "optimizer"))
    if parameters == "nvme" and _section(config, "aio").get("use_gds"):
        names.append("gds")
    elif parameters == "nvme":
        names.append("async_io")
    if states == "nvme":
        names.append("async_io")
    if any(zero.get(key) is True for key in _QUANTIZED):
        names.append("quantizer")
    return tuple(names)


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    return section if isinstance(section, Mapping) else {}


def _device(zero: Mapping[str, Any], key: str) -> str:
    return str(_section(zero, key).get("device", "none"))
