"""Lint: values of the wrong kind, or out of the range that DeepSpeed takes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.finding import Finding, Level, Look, said
from zlaunch.dsconfig.lint_size import limits_of_value, size_of
from zlaunch.dsconfig.misnamed import VALUES
from zlaunch.dsconfig.schema import Field
from zlaunch.dsconfig.values import AUTO, REAL_SWITCHES, number_in
from zlaunch.dsconfig.versions import NEWEST_READ

Path = tuple[str, ...]

# What pydantic takes for true and false.
_YES = frozenset({"true", "yes", "on", "t", "y", "1"})
_YES_NO = _YES | {"false", "no", "off", "f", "n", "0"}
_WHOLE = r"\s*[+-]?\d+(_\d+)*(\.0+)?\s*"  # texts that it takes for integers
# Validators of DeepSpeed's own stand before pydantic there.
_NO_SWITCH = frozenset(
    {("fp16", "loss_scale"), ("fp16", "loss_scale_window"), ("fp16", "min_loss_scale")}
)
_KIND_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "list": "a list",
    "dict": "a section",
    "section": "a section",
}
# Keys outside of models that may be null: DeepSpeed's own default is that.
_NULL = frozenset(
    {
        *("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"),
        *("steps_per_print", "log_level", "communication_data_type", "vocabulary_size"),
        *("activation_checkpointing.number_checkpoints", "checkpoint.writer"),
        *("checkpoint.writer.type", "checkpoint.writer.data_parallel"),
        *("data_types.grad_accum_dtype", "data_types.param_dtype", "data_types.buffer_dtype"),
        *("flops_profiler.output_file", "seq_parallel_communication_data_type"),
        *("scheduler.params.cycle_second_step_size", "scheduler.params.cycle_second_stair_count"),
        *("autotuning.metric_path", "autotuning.model_info_path", "autotuning.model_info"),
        *("autotuning.model_info.num_params", "autotuning.model_info.hidden_size"),
        *("autotuning.model_info.num_layers", "autotuning.max_train_batch_size"),
        "autotuning.arg_mappings",
    }
)
# Counts that DeepSpeed only compares and divides by.
_FRACTIONS_DO = frozenset(
    {
        *("steps_per_print", "vocabulary_size", "scheduler.params.total_num_steps"),
        "scheduler.params.decay_step_size",
    }
)
# Sections that DeepSpeed takes for absent when they are null.
_NULL_SECTIONS = frozenset(
    {"aio", "bf16", "zero_optimization.leaf_module", "expert_parallel", "optimizer.params"}
)
_DTYPES = ("fp16", "bf16", "fp32")
# Choices that no model knows of; `*` is compared without regard to case.
_CHOICES: dict[str, tuple[str, ...]] = {
    "communication_data_type": _DTYPES,
    "seq_parallel_communication_data_type": _DTYPES,
    "gradient_allreduce_op": ("mean", "sum"),
    "log_level": ("debug", "info", "warning", "error", "critical"),
    "checkpoint.tag_validation": ("Ignore", "Warn", "Fail"),
    "checkpoint.writer.type": ("PYTHON", "FAST", "MOCK"),
    "checkpoint.writer.data_parallel": ("REPLICA", "SOCKET", "MACHINE"),
    "data_types.keep_in_fp32_modules": ("auto",),
    "zero_optimization.zenflow.select_interval": ("auto",),
    "zero_optimization.zenflow.update_interval": ("auto",),
    "zero_optimization.zenflow.select_strategy": ("auto", "step", "epoch"),
    "scheduler.params.warmup_type": ("log", "linear"),
    "autotuning.metric": ("latency", "throughput", "flops"),
    "autotuning.tuner_type": ("gridsearch", "random", "model_based"),
}
_SWITCHED_OFF = (("datastates_ckpt",), ("expert_parallel",))
# Lists of names: which ones, where that is fixed.
_LISTS: dict[str, tuple[str, ...]] = {
    "zero_optimization.leaf_module.classes": (),
    "zero_optimization.leaf_module.names": (),
    "zero_optimization.leaf_module.name_suffixes": (),
    "torch_autocast.lower_precision_safe_modules": (),
    "data_types.keep_in_fp32_modules": (),
    "compile.passes": ("z1", "z3", "autosp", "autotp"),
}
# One number for each group of parameters does there as well, of OneCycle since some 0.19.
_PER_GROUP = frozenset({"warmup_min_lr", "warmup_max_lr", "lr_range_test_min_lr"})
_PER_GROUP_NOW = frozenset({"cycle_min_lr", "cycle_max_lr", "cycle_min_mom", "cycle_max_mom"})
_EXACT = frozenset(
    {
        *("zero_optimization.zenflow.select_strategy", "scheduler.params.warmup_type"),
        *("zero_optimization.zenflow.select_interval", "data_types.keep_in_fp32_modules"),
        "zero_optimization.zenflow.update_interval",
    }
)


def check_values(look: Look) -> Iterator[Finding]:
    """Every value of the config against its key."""
    yield from _walk(look, look.config, look.schema.root, ())


def _walk(look: Look, table: Mapping[str, Any], section: Field, above: Path) -> Iterator[Finding]:
    for name, value in table.items():
        field = section.find(name)
        if field is None:
            continue
        path = (*above, name)
        if isinstance(value, dict) and "section" in field.kinds:
            yield from _walk(look, value, field, path)
        elif (beyond := size_of(look, field, path, value)) is not None:
            yield from beyond
        else:
            yield from _value(look, field, path, value)


def _value(look: Look, field: Field, path: Path, value: Any) -> Iterator[Finding]:
    if path == ("tensor_parallel", "dtype") and value != AUTO:  # of a type that no JSON value has
        text = "tensor_parallel.dtype can be set in a program only; DeepSpeed refuses it here"
        yield look.finds("error", "wrong-type", path, text, "take it out: fp16 and bf16 decide")
        return
    if value == AUTO or "any" in field.kinds:
        return
    if value is None:
        yield from _null(look, field, path)
        return
    if path == ("zero_optimization",) and isinstance(value, bool):
        text = f"{said(value)} is the old form of ZeRO stage {int(value)}"
        if look.around.target == "plain":  # others fail on it, says lint_zero
            mend = f'write {{"stage": {int(value)}}}'
            yield look.finds("note", "deprecated-key", path, text, mend)
        return
    findings = tuple(_kind(look, field, path, value))
    yield from findings
    if not any(finding.level == "error" for finding in findings):
        yield from _choice(look, field, path, value)
        yield from limits_of_value(look, field, path, value)


def _null(look: Look, field: Field, path: Path) -> Iterator[Finding]:
    dotted = ".".join(path)
    if field.null or (not field.lax and dotted in _NULL) or dotted in _NULL_SECTIONS:
        return
    if field.kinds == ("bool",) and not field.lax and dotted not in REAL_SWITCHES:
        text = f"{dotted} is null, which DeepSpeed takes for false"
        yield look.finds("note", "wrong-type", path, text, "write false, or leave it out")
        return
    wanted = " or ".join(_KIND_WORDS[kind] for kind in field.kinds)
    text = f"{dotted} is null, where DeepSpeed takes {wanted}"
    yield look.finds("error", "wrong-type", path, text, "leave the key out for the default")


def _kind(look: Look, field: Field, path: Path, value: Any) -> Iterator[Finding]:
    dotted, kinds = ".".join(path), field.kinds
    if any(_is(value, kind) for kind in kinds) or _is_for_groups(look, path, value):
        return
    wanted = " or ".join(dict.fromkeys(_KIND_WORDS[kind] for kind in kinds))
    wrong = f"{dotted} is {said(value)}, where DeepSpeed takes {wanted}"
    number = number_in(value) if isinstance(value, str) else None
    if isinstance(value, bool) and {"int", "float"} & {*kinds}:
        yield from _switch_for_a_number(look, path, wrong, value)
    elif number is not None and {"int", "float"} & {*kinds}:
        yield from _number_as_text(look, field, path, number)
    elif "int" in kinds and isinstance(value, float):
        near = f"{math.floor(value)} or {math.ceil(value)}"
        level: Level = "warning" if dotted in _FRACTIONS_DO else "error"
        yield look.finds(level, "not-whole", path, wrong, f"write {near}")
    elif kinds == ("bool",) and _is_yes_or_no(field, path, value):
        text = f"{dotted} is {said(value)}, which DeepSpeed takes for true or false"
        yield look.finds("note", "wrong-type", path, text, "write true or false")
    elif "list" in kinds and isinstance(value, str) and path[-2:-1] == ("leaf_module",):
        return  # one name stands for a list of one
    elif value is False and path in _SWITCHED_OFF:
        return
    else:
        yield look.finds("error", "wrong-type", path, wrong, _mend(field, value))


def _is_for_groups(look: Look, path: Path, value: Any) -> bool:
    """Whether it is a list of numbers where DeepSpeed takes one for each group of parameters."""
    known = _PER_GROUP | _PER_GROUP_NOW if look.schema.version >= NEWEST_READ else _PER_GROUP
    numbers = isinstance(value, list) and all(_is(one, "float") for one in value)
    return numbers and bool(value) and path[:-1] == ("scheduler", "params") and path[-1] in known


def _switch_for_a_number(look: Look, path: Path, wrong: str, value: bool) -> Iterator[Finding]:
    if path in _NO_SWITCH:
        yield look.finds("error", "wrong-type", path, wrong, "write a number")
        return
    text = f"{'.'.join(path)} is {said(value)}, which DeepSpeed takes for {int(value)}"
    yield look.finds("warning", "wrong-type", path, text, f"write {int(value)}, if that is meant")


def _number_as_text(look: Look, field: Field, path: Path, number: float) -> Iterator[Finding]:
    value = str(look.get(*path))
    if "float" not in field.kinds and not isinstance(number, int):
        text = f"{'.'.join(path)} is {said(value)}, where DeepSpeed takes a whole number"
        yield look.finds("error", "not-whole", path, text, "write a whole number")
        return
    text = f"{'.'.join(path)} is a text, {said(value)}"
    mend = f"write {said(number)}"
    if field.lax and ("float" in field.kinds or _is_read_as_whole(path, value)):
        text += "; DeepSpeed takes it for the number"
        yield look.finds("note", "number-as-text", path, text, mend)
    elif look.around.direct:
        text += ", and DeepSpeed takes a number only"
        yield look.finds("error", "number-as-text", path, text, mend)
    else:
        text += f"; zlaunch run writes the number {said(number)}, DeepSpeed alone does not take it"
        yield look.finds("warning", "number-as-text", path, text, mend)


def _is_read_as_whole(path: Path, text: str) -> bool:
    """Whether pydantic, or before it a validator of DeepSpeed's, makes an integer of a text."""
    pattern = r"\s*[+-]?\d+(_\d+)*\s*" if path in _NO_SWITCH else _WHOLE
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _is(value: Any, kind: str) -> bool:
    if kind == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "int":
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return whole and not isinstance(value, bool)
    types: dict[str, type] = {"bool": bool, "str": str, "list": list, "dict": dict}
    return isinstance(value, types.get(kind, dict))


def _is_yes_or_no(field: Field, path: Path, value: Any) -> bool:
    """Whether DeepSpeed takes a value for the switch that it seems to be."""
    if not isinstance(value, str):
        return isinstance(value, (int, float)) and value in (0, 1)
    if field.lax:
        return value.lower() in _YES_NO
    # Any text is as good as true, where nothing needs a real switch.
    strict = path[0] == "aio" or ".".join(path) in REAL_SWITCHES
    return value.lower() in _YES and not strict


def _mend(field: Field, value: Any) -> str:
    kinds = field.kinds
    if value == "dynamic" and "float" in kinds:
        return "write 0 for a dynamic one"
    if kinds == ("bool",):
        return "write true or false, without quotes"
    if kinds == ("str",) and isinstance(value, (int, float)):
        return f"put it in quotes: {said(str(value))}"
    if "section" in kinds:
        is_switch = isinstance(value, bool) and "enabled" in field.fields
        inner = f'"enabled": {said(value)}' if is_switch else "..."
        inner = f'"stage": {value}' if value in (1, 2, 3) and "stage" in field.fields else inner
        return f"write a section: {{{inner}}}"
    return f"write {' or '.join(dict.fromkeys(_KIND_WORDS[kind] for kind in kinds))}"


def _choice(look: Look, field: Field, path: Path, value: Any) -> Iterator[Finding]:
    dotted = ".".join(path)
    if isinstance(value, list):
        yield from _items(look, path, value)
        return
    choices: tuple[Any, ...] = field.choices or _CHOICES.get(dotted, ())
    if choices == ("auto",) and not isinstance(value, str):
        return
    if not choices:
        return
    folded = not field.choices and dotted not in _EXACT
    known = [str(choice).lower() if folded else choice for choice in choices]
    if isinstance(choices[0], int):
        value = number_in(value) if isinstance(value, str) else value
    if (value.lower() if folded and isinstance(value, str) else value) in known:
        return
    if isinstance(value, bool) and isinstance(choices[0], int):
        return  # said already
    listed = ", ".join(str(choice) for choice in choices)
    text = f"{dotted} is {said(value)}; it can be {listed}"
    near = [c for c in choices if str(c).lower() == str(value).lower()]
    meant = VALUES.get(value) if isinstance(value, str) else None
    near = [meant] if not near and meant in choices else near
    mend = f'write "{near[0]}"' if near else f"write one of {listed}"
    yield look.finds("error", "unknown-value", path, text, mend)


def _items(look: Look, path: Path, items: list[Any]) -> Iterator[Finding]:
    names = _LISTS.get(".".join(path))
    for index, item in enumerate(items if names is not None else ()):
        if not isinstance(item, str) or (names and item not in names):
            wanted = f"one of {', '.join(names)}" if names else "a name"
            text = f"{'.'.join(path)} holds {said(item)}, where DeepSpeed takes {wanted}"
            yield look.finds("error", "unknown-value", (*path, index), text, f"write {wanted}")
