"""The fields of Accelerate's configuration files, and how it reads their values; 1.15."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from zlaunch.dsconfig.keys import words

# Fields of `ClusterConfig` and of `BaseConfig`; the last two are read from older files.
TOP = words(
    """
    compute_environment distributed_type mixed_precision use_cpu debug num_processes machine_rank
    num_machines gpu_ids main_process_ip main_process_port rdzv_backend same_network
    main_training_function enable_cpu_affinity fp8_config deepspeed_config fsdp_config
    parallelism_config megatron_lm_config mpirun_config downcast_bf16 tpu_name tpu_zone
    tpu_use_cluster tpu_use_sudo command_file commands tpu_vm tpu_env dynamo_config
    fp16 dynamo_backend
    """
)
OF_OTHER_VERSIONS = words("ipex_config tp_config")
TYPES = (
    *("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA"),
    *("MULTI_XPU", "MULTI_HPU", "MULTI_NEURON", "DEEPSPEED", "FSDP", "XLA", "MEGATRON_LM"),
)
PRECISIONS: dict[str, dict[str, dict[str, bool]]] = {
    "no": {},
    "fp16": {"fp16": {"enabled": True, "auto_cast": True}},
    "bf16": {"bf16": {"enabled": True}},
    "fp8": {"bf16": {"enabled": True}},
}
_HALF = '"bf16": {"enabled": true}, or fp16'
# Refused beside deepspeed_config_file, and the key of a ds_config that says the same.
ALONE = {
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "gradient_clipping",
    "zero_stage": "zero_optimization.stage",
    "offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "offload_param_device": "zero_optimization.offload_param.device",
    "offload_optimizer_nvme_path": "zero_optimization.offload_optimizer.nvme_path",
    "offload_param_nvme_path": "zero_optimization.offload_param.nvme_path",
    "zero3_save_16bit_model": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "mixed_precision": _HALF,
    "fp16": _HALF,
}
# Those that `str_to_bool` of Accelerate takes.
_TRUTHS = {
    **dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True),
    **dict.fromkeys(("n", "no", "f", "false", "off", "0"), False),
}


class RefusedFieldError(Exception):
    """A value that Accelerate cannot read; the message says what it reads there."""

    def __init__(self, expected: str, mend: str) -> None:
        super().__init__(expected)
        self.mend = mend


def whole_number(raw: Any) -> int | None:
    """What int() makes of a value's text; None where it makes nothing."""
    try:
        return int(str(raw))
    except ValueError:
        return None


def _stage(raw: Any) -> int:
    number = whole_number(raw)
    if number is None:
        raise RefusedFieldError("a whole number", "write 0, 1, 2 or 3")
    return number


def _accumulation(raw: Any) -> int | str:
    text = str(raw)
    if text == "auto" or (text.isascii() and text.isdigit()):
        return text if text == "auto" else int(text)
    raise RefusedFieldError("digits, or auto", "write a whole number from 1 on")


def _clipping(raw: Any) -> float | str:
    text = str(raw).lower()
    try:
        number = "auto" if text == "auto" else float(text)
    except ValueError:
        number = math.nan
    if isinstance(number, float) and not math.isfinite(number):
        raise RefusedFieldError("a number, or auto", "write a number, such as 1.0")
    return number


def _device(raw: Any) -> str:
    text = str(raw).lower()
    if text not in ("none", "cpu", "nvme"):
        raise RefusedFieldError("none, cpu or nvme", "write one of them")
    return text


def _saves(raw: Any) -> bool:
    text = str(raw).lower()
    if text not in ("true", "false"):
        raise RefusedFieldError("true or false, and takes all else for false", "write true")
    return text == "true"


def _switch(raw: Any) -> bool:
    text = str(raw).lower()
    if text not in _TRUTHS:
        raise RefusedFieldError("true or false", "write one of them")
    return _TRUTHS[text]


def _as_it_is(raw: Any) -> Any:
    return raw


FIELDS: dict[str, Callable[[Any], Any]] = {
    "gradient_accumulation_steps": _accumulation,
    "gradient_clipping": _clipping,
    "zero_stage": _stage,
    "offload_optimizer_device": _device,
    "offload_param_device": _device,
    "offload_optimizer_nvme_path": _as_it_is,
    "offload_param_nvme_path": _as_it_is,
    "zero3_save_16bit_model": _saves,
    "zero3_init_flag": _switch,
    "deepspeed_config_file": _as_it_is,
    "deepspeed_hostfile": _as_it_is,
    "deepspeed_exclusion_filter": _as_it_is,
    "deepspeed_inclusion_filter": _as_it_is,
    "deepspeed_multinode_launcher": _as_it_is,
    "deepspeed_moe_layer_cls_names": _as_it_is,
}
