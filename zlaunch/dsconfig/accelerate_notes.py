"""What an Accelerate file says that has no place in a ds_config, and how zlaunch is told it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.accelerate_written import Written

_OF_HOSTS = {
    "deepspeed_hostfile": "zlaunch multinode --hostfile {}",
    "deepspeed_inclusion_filter": "--include {}",
    "deepspeed_exclusion_filter": "--exclude {}",
}
_OF_MANY = {"main_process_ip": "--master-addr {}", "main_process_port": "--master-port {}"}


def notes_on(file: Written) -> Iterator[str]:
    """Sentences for the user."""
    processes, machines = file.processes, file.machines
    if processes is not None and machines > 1:
        each = processes // machines
        yield (
            f"{processes} processes on {machines} machines, so {each} on each:"
            f" zlaunch multinode --nproc {each}"
        )
    elif processes is not None:
        plural = "es" if processes > 1 else ""
        yield f"{processes} process{plural} on one machine: zlaunch run --num-gpus {processes}"
    gpus = file.top.get("gpu_ids")
    if gpus not in (None, "all"):
        yield f"gpu_ids {gpus}: --gpus {gpus}"
    for source, ways in ((file.fields, _OF_HOSTS), (file.top if machines > 1 else {}, _OF_MANY)):
        for key, way in ways.items():
            if source.get(key):
                yield f"{key}: {way.format(source[key])}"
    yield from _on_the_script(file.top, file.fields)


def _on_the_script(top: Mapping[str, Any], fields: Mapping[str, Any]) -> Iterator[str]:
    other_stage = "zero_stage" in fields and str(fields["zero_stage"]) != "3"  # ignored there
    if fields.get("zero3_init_flag") and not other_stage:
        yield "zero3_init_flag: the script calls deepspeed.zero.Init, or its reader does"
    layers = fields.get("deepspeed_moe_layer_cls_names")
    if layers:
        yield (
            "deepspeed_moe_layer_cls_names: write the classes, by module and name, into"
            " zero_optimization.leaf_module.classes, or set"
            f" ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES={layers}"
        )
    if str(top.get("mixed_precision")).lower() == "fp8":
        yield "mixed_precision fp8: the ds_config has bf16; fp8 is up to the script's Accelerator"
    for section in ("fp8_config", "dynamo_config", "parallelism_config"):
        if top.get(section):
            yield f"{section} is for Accelerate itself, and nothing of it is in a ds_config"
