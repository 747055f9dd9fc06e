"""Lint: values of the wrong kind, or out of the range that DeepSpeed takes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.finding import Finding, Look, is_sane, said
from zlaunch.dsconfig.schema import Field
from zlaunch.dsconfig.values import AUTO, number_in

Path = tuple[str, ...]

# What pydantic takes for true and false.
_YES_NO = frozenset({"true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0"})
_KIND_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "list": "a list",
    "dict": "a section",
    "section": "a section",
}
_TESTS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
_LIMIT_WORDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
# Keys outside of models that may be null: DeepSpeed's own default is that.
_NULL = frozenset(
    {
        *("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"),
        *("steps_per_print", "log_level", "communication_data_type", "vocabulary_size"),
        *("activation_checkpointing.number_checkpoints", "checkpoint.writer"),
        *("checkpoint.writer.type", "checkpoint.writer.data_parallel"),
        *("data_types.grad_accum_dtype", "data_types.param_dtype", "data_types.buffer_dtype"),
        *("flops_profiler.output_file", "seq_parallel_communication_data_type"),
    }
)
# Sections that DeepSpeed takes for absent when they are null.
_NULL_SECTIONS = frozenset({"aio", "bf16", "zero_optimization.leaf_module", "expert_parallel"})
# Switches that have to be there, or true or false.
_NOT_NULL = frozenset(
    {"wall_clock_breakdown", "flops_profiler.enabled", "checkpoint.parallel_write.pipeline_stage"}
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
_EXACT = frozenset({"zero_optimization.zenflow.select_strategy", "scheduler.params.warmup_type"})


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
        elif _is_beyond(value):
            if not any(oddity.where == path for oddity in look.document.oddities):
                text = f"{'.'.join(path)} is too large to be a number"
                yield look.finds("error", "out-of-range", path, text, "write a smaller one")
        else:
            yield from _value(look, field, path, value)


def _is_beyond(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and not is_sane(value)


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
        yield look.finds("note", "deprecated-key", path, text, f'write {{"stage": {int(value)}}}')
        return
    findings = tuple(_kind(look, field, path, value))
    yield from findings
    if not any(finding.level == "error" for finding in findings):
        yield from _choice(look, field, path, value)
        yield from _limits(look, field, path, value)


def _null(look: Look, field: Field, path: Path) -> Iterator[Finding]:
    dotted = ".".join(path)
    if field.null or (not field.lax and dotted in _NULL) or dotted in _NULL_SECTIONS:
        return
    if field.kinds == ("bool",) and not field.lax and dotted not in _NOT_NULL:
        text = f"{dotted} is null, which DeepSpeed takes for false"
        yield look.finds("note", "wrong-type", path, text, "write false, or leave it out")
        return
    wanted = " or ".join(_KIND_WORDS[kind] for kind in field.kinds)
    text = f"{dotted} is null, where DeepSpeed takes {wanted}"
    yield look.finds("error", "wrong-type", path, text, "leave the key out for the default")


def _kind(look: Look, field: Field, path: Path, value: Any) -> Iterator[Finding]:
    dotted, kinds = ".".join(path), field.kinds
    if any(_is(value, kind) for kind in kinds):
        return
    wanted = " or ".join(dict.fromkeys(_KIND_WORDS[kind] for kind in kinds))
    wrong = f"{dotted} is {said(value)}, where DeepSpeed takes {wanted}"
    number = number_in(value) if isinstance(value, str) else None
    if number is not None and {"int", "float"} & {*kinds}:
        yield from _number_as_text(look, field, path, number)
    elif "int" in kinds and isinstance(value, float):
        near = f"{math.floor(value)} or {math.ceil(value)}"
        yield look.finds("error", "not-whole", path, wrong, f"write {near}")
    elif kinds == ("bool",) and _is_yes_or_no(value) and (field.lax or not isinstance(value, str)):
        text = f"{dotted} is {said(value)}, which DeepSpeed takes for true or false"
        yield look.finds("note", "wrong-type", path, text, "write true or false")
    elif "list" in kinds and isinstance(value, str) and path[-2:-1] == ("leaf_module",):
        return  # one name stands for a list of one
    elif value is False and path in _SWITCHED_OFF:
        return
    else:
        yield look.finds("error", "wrong-type", path, wrong, _mend(kinds, value))


def _number_as_text(look: Look, field: Field, path: Path, number: float) -> Iterator[Finding]:
    value = look.get(*path)
    if "float" not in field.kinds and not isinstance(number, int):
        text = f"{'.'.join(path)} is {said(value)}, where DeepSpeed takes a whole number"
        yield look.finds("error", "not-whole", path, text, "write a whole number")
        return
    text = f"{'.'.join(path)} is a text, {said(value)}; zlaunch run writes the number {number}"
    if field.lax and ("float" in field.kinds or str(value).strip().isdigit()):
        yield look.finds("note", "number-as-text", path, text, f"write {number}")
    else:
        text += ", DeepSpeed alone does not take it"
        yield look.finds("warning", "number-as-text", path, text, f"write {number}")


def _is(value: Any, kind: str) -> bool:
    if kind == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "int":
        whole = isinstance(value, int) or (isinstance(value, float) and value == int(value))
        return whole and not isinstance(value, bool)
    types: dict[str, type] = {"bool": bool, "str": str, "list": list, "dict": dict}
    return isinstance(value, types.get(kind, dict))


def _is_yes_or_no(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in _YES_NO
    return isinstance(value, (int, float)) and value in (0, 1)


def _mend(kinds: tuple[str, ...], value: Any) -> str:
    if kinds == ("bool",):
        return "write true or false, without quotes"
    if kinds == ("str",) and isinstance(value, (int, float)):
        return f"put it in quotes: {said(str(value))}"
    if "section" in kinds:
        return "write a section: {...}"
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
    listed = ", ".join(str(choice) for choice in choices)
    text = f"{dotted} is {said(value)}; it can be {listed}"
    near = [c for c in choices if str(c).lower() == str(value).lower()]
    mend = f'write "{near[0]}"' if near else f"write one of {listed}"
    yield look.finds("error", "unknown-value", path, text, mend)


def _items(look: Look, path: Path, items: list[Any]) -> Iterator[Finding]:
    names = _LISTS.get(".".join(path))
    for index, item in enumerate(items if names is not None else ()):
        if not isinstance(item, str) or (names and item not in names):
            wanted = f"one of {', '.join(names)}" if names else "a name"
            text = f"{'.'.join(path)} holds {said(item)}, where DeepSpeed takes {wanted}"
            yield look.finds("error", "unknown-value", (*path, index), text, f"write {wanted}")


def _limits(look: Look, field: Field, path: Path, value: Any) -> Iterator[Finding]:
    number = number_in(value) if isinstance(value, str) else value
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return
    if number == 0 and path[-1].endswith("bucket_size") and path[-1] in _BUCKETS:
        return  # said more plainly in `lint_zero`
    limits = {"ge": 1.0} if path[-1] == "update_interval" else field.limits
    for name, limit in limits.items():
        if not _TESTS[name](number, limit):
            bound = int(limit) if limit == int(limit) else limit
            text = f"{'.'.join(path)} is {number}; it has to be {_LIMIT_WORDS[name]} {bound}"
            yield look.finds("error", "out-of-range", path, text, "change it, or leave it out")
            return


_BUCKETS = ("reduce_bucket_size", "allgather_bucket_size")
