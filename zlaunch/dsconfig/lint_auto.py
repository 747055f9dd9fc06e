"""Lint: "auto", for a reader who fills it or does not; and numbers that have to equal others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.batchkeys import KEY_OF
from zlaunch.dsconfig.finding import Finding, Look, said
from zlaunch.dsconfig.keys import words
from zlaunch.dsconfig.schema import MODELS, UNKNOWN
from zlaunch.dsconfig.values import AUTO, REAL_SWITCHES
from zlaunch.dsconfig.versions import HALF_MODELS_SINCE

Path = tuple[str, ...]

_BATCH = frozenset(KEY_OF.values())
# DeepSpeed itself takes "auto" for a value there.
_OWN = words(
    """
    data_types.keep_in_fp32_modules pipeline.stages zero_optimization.zenflow.select_strategy
    zero_optimization.zenflow.select_interval zero_optimization.zenflow.update_interval
    """
)
# Filled by Accelerate, which the Trainer goes through as well.
_BOTH = words(
    """
    train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps
    gradient_clipping zero_optimization.stage zero_optimization.offload_optimizer.device
    zero_optimization.offload_param.device zero_optimization.offload_optimizer.nvme_path
    zero_optimization.offload_param.nvme_path
    zero_optimization.stage3_gather_16bit_weights_on_model_save
    zero_optimization.reduce_bucket_size zero_optimization.stage3_prefetch_bucket_size
    zero_optimization.stage3_param_persistence_threshold fp16.enabled bf16.enabled
    optimizer.params.lr optimizer.params.weight_decay scheduler.params.warmup_min_lr
    scheduler.params.warmup_max_lr scheduler.params.warmup_num_steps
    scheduler.params.total_num_steps
    """
)
_FILLED = {"accelerate": _BOTH, "hf": _BOTH | {"optimizer.params.betas", "optimizer.params.eps"}}
# Read within one model, which drops the word as those of a section do.
_MONITORS = frozenset({"tensorboard", "wandb", "csv_monitor", "comet"})
_READER = {"accelerate": "Accelerate", "hf": "the Trainer"}

# A number of the config has to be the one of this argument.
_EQUAL = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "train_batch_size": "the product of the batch arguments and the world size",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.betas": "[adam_beta1, adam_beta2]",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
    "scheduler.params.warmup_num_steps": "warmup_steps",
    "scheduler.params.total_num_steps": "the number of training steps",
    "fp16.enabled": "fp16",
    "bf16.enabled": "bf16",
}


def waits_for_a_reader(config: Mapping[str, Any]) -> bool:
    """Whether "auto" stands anywhere that DeepSpeed does not read it itself."""
    return any(".".join(path) not in _OWN for path in _autos(config, ()))


def check_autos(look: Look) -> Iterator[Finding]:
    """Every "auto" that nobody fills; for the Trainer also the numbers that are not "auto"."""
    for path in _autos(look.config, ()):
        dotted = ".".join(path)
        if dotted in _OWN or (look.schema.field(*path) is None and not _in_params(path)):
            continue
        if look.around.target == "plain":
            yield from _plain(look, path)
        elif dotted not in _FILLED[look.around.target]:
            reader = _READER[look.around.target]
            text = f'{dotted} is "auto", which {reader} does not fill'
            yield look.finds("error", "auto-unfilled", path, text, "write a value, or take it out")
    if look.around.target == "hf":
        yield from _equal(look)


def _autos(table: Mapping[str, Any], above: Path) -> Iterator[Path]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _autos(value, (*above, name))
        elif value == AUTO:
            yield (*above, name)


def _in_params(path: Path) -> bool:
    return path[1:2] == ("params",) and path[0] in ("optimizer", "scheduler")


def _plain(look: Look, path: Path) -> Iterator[Finding]:
    dotted = ".".join(path)
    text = f'{dotted} is "auto", and nobody fills it in a plain DeepSpeed script'
    half = path[0] in ("fp16", "bf16", "bfloat16")
    by_model = any(".".join(path[:end]) in MODELS for end in range(1, len(path)))
    by_model = by_model or dotted in _MONITORS
    if half and look.schema.version < HALF_MODELS_SINCE:
        if path[-1] == "enabled":
            text += ": this DeepSpeed takes the word for true"
            yield look.finds("warning", "auto-default", path, text, "write true or false")
        else:
            yield look.finds("error", "auto-unfilled", path, f"{text}: it fails", "write a value")
    elif by_model:
        field = look.schema.field(*path)
        known = field is not None and field.default is not UNKNOWN
        default = f" {said(field.default)}" if known and field is not None else ""
        text += f": DeepSpeed drops the key and takes its default{default}"
        yield look.finds("warning", "auto-default", path, text, _mend(path))
    elif _is_truth(look, path):
        text += ": DeepSpeed takes the word for true"
        yield look.finds("warning", "auto-default", path, text, "write true or false")
    else:
        text += ": it fails on the word"
        yield look.finds("error", "auto-unfilled", path, text, _mend(path))


def _is_truth(look: Look, path: Path) -> bool:
    """Whether the key is a switch that any text turns on."""
    field = look.schema.field(*path)
    switch = field is not None and field.kinds == ("bool",)
    return switch and path[0] != "aio" and ".".join(path) not in REAL_SWITCHES


def _mend(path: Path) -> str:
    if path[-1] in _BATCH:
        return "write a number, or run it with a batch option"
    return "write a value, or choose --target hf or accelerate where one of them reads it"


def _equal(look: Look) -> Iterator[Finding]:
    """One note for all: the Trainer refuses what differs from its arguments."""
    paths = [tuple(key.split(".")) for key in _EQUAL]
    fixed = [path for path in paths if look.get(*path) not in (None, AUTO)]
    if not fixed:
        return
    pairs = "; ".join(f"{'.'.join(path)}: {_EQUAL['.'.join(path)]}" for path in fixed)
    text = f"the Trainer refuses these unless its own arguments say the same: {pairs}"
    yield look.finds("note", "must-equal", fixed[0], text, 'write "auto", and give the arguments')
