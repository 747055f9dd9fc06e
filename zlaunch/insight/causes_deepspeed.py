"""Causes: DeepSpeed's configuration and loss scale; DDP."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from zlaunch.dsconfig.keys import KEYS, Tree
from zlaunch.insight.cause_table import Case, Row, Told, at_most

_CHECK = "`zlaunch config check FILE --world-size N` finds all of them before a start"
_ITEM = re.compile(
    r"^([\w.]+)\n  ([^\n\[]+?) \[type=(\w+), input_value=([^\n]*?), input_type", re.M
)
_PAIR = re.compile(r"ds ([\w.]+)=(\S+) vs hf (\w+)=(\S+)")


def _names(tree: Tree) -> Iterator[str]:
    for name, below in tree.items():
        yield name
        if isinstance(below, dict):
            yield from _names(below)


_NAMES = sorted({*_names(KEYS)})


def _near(key: str) -> list[str]:
    return difflib.get_close_matches(key.rpartition(".")[2], _NAMES, 1, 0.8)


def _pydantic(case: Case) -> Told:
    items = _ITEM.findall(case.found.string)
    unknown = [key for key, _, kind, _ in items if kind == "extra_forbidden"]
    wrong = [f"{key}: {what}, not {value}" for key, what, kind, value in items
             if kind != "extra_forbidden"]  # fmt: skip
    section = case.group("section")
    near = [name for key in unknown for name in _near(key)]
    parts = []
    if unknown:
        parts.append(f"no key {at_most(unknown, 4)}")
    if wrong:
        parts.append(at_most(wrong, 3))
    told = "; ".join(parts) or f"{case.group('count')} errors"
    mends = [f"did you mean {at_most(near, 3)}?"] if near else []
    return Told(f"DeepSpeed refuses the ds_config ({section}): {told}", (), (*mends, _CHECK))


def _batch(case: Case) -> Told:
    total, micro, steps, world = (case.group(n) for n in ("total", "micro", "steps", "world"))
    mends = [
        (
            "give two of the three and let the third be solved: --micro-batch, --accumulate, "
            "--global-batch"
        ),
    ]
    if all(map(str.isdigit, (total, micro, steps, world))):
        product = int(micro) * int(steps) * int(world)
        mends.insert(0, f"--set train_batch_size={product}, or leave train_batch_size out")
    return Told(
        f"the batch sizes do not multiply out: train_batch_size {total} is not "
        f"{micro} x {steps} x {world} (micro batch x accumulation x ranks)",
        (),
        tuple(mends),
    )


def _mismatch(case: Case) -> Told:
    pairs = _PAIR.findall(case.found.string)
    details = tuple(f"ds_config {a}={x}, but {b}={y}" for a, x, b, y in pairs)
    return Told(
        "the ds_config and the Trainer's arguments say different things: "
        + at_most((a for a, *_ in pairs), 4),
        details,
        (
            '"auto" for these keys: the Trainer then fills in its own',
            "--recipe with --target hf writes such a file",
        ),
    )


def _key(case: Case) -> Told:
    return Told(f"DeepSpeed refuses the ds_config: {case.group('what')}", (), (_CHECK,))


ROWS = (
    Row(
        "loss-scale-minimum",
        r"Current loss scale already at minimum",
        "fp16: the loss scale is at its minimum, and the gradients overflow all the same",
        (
            "--precision bf16, which needs no loss scale",
            (
                "or a lower learning rate, gradient clipping, a longer warm-up; look for nan in "
                "the "
                "data"
            ),
        ),
    ),
    Row(
        "ds-config-refused",
        r"ValidationError: (?P<count>\d+) validation errors? for (?P<section>DeepSpeed\w+|"
        r"\w*(?:Zero|FP16|BF16|Fp16|Config)\w*)",
        tell=_pydantic,
    ),
    Row(
        "batch-sizes",
        r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size "
        r"(?P<total>\S+) != (?P<micro>\S+) \* (?P<steps>\S+) \* (?P<world>\S+)",
        tell=_batch,
    ),
    Row(
        "batch-sizes",
        r"Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided",
        "the ds_config holds no batch size",
        ("--micro-batch N, or --set train_micro_batch_size_per_gpu=N",),
    ),
    Row(
        "auto-left",
        r"TypeError: .{0,80}not supported between instances of 'str' and '(?:int|float)'|"
        r"ValueError: .{0,60}'auto'|has to be greater than 0",
        'the ds_config still holds "auto", which DeepSpeed itself does not fill in',
        (
            "numbers in place of auto: `zlaunch config render RECIPE --world-size N`",
            "the Trainer and Accelerate fill it in only where the config goes through them",
            _CHECK,
        ),
        where=r"deepspeed.runtime.config|deepspeed/runtime/config",
    ),
    Row(
        "ds-config-mismatch",
        r"Please correct the following DeepSpeed config values that mismatch",
        tell=_mismatch,
    ),
    Row(
        "ds-config-not-found",
        r"Expected a string path to an existing deepspeed config.{0,80}?Received: (?P<path>[^\n]*)",
        "there is no ds_config {path}",
        (
            (
                "the path, from the directory that the ranks run in; {{ds_config}} in the "
                "arguments is replaced by zlaunch's own"
            ),
        ),
    ),
    Row("ds-config-refused", r"DeepSpeedConfigError: (?P<what>[^\n]*)", tell=_key),
    Row(
        "ds-config-refused",
        r"AssertionError: (?P<what>bfloat16 and fp16 modes cannot[^\n]*|\S+ is not a supported "
        r"DeepSpeed Optimizer|DeepSpeed does not recognize LR scheduler[^\n]*|[^\n]*(?:ZeRO|zero)"
        r"[^\n]*only supported[^\n]*)|ValueError: (?P<other>You are using ZeRO-Offload[^\n]*|"
        r"[^\n]*zero_force_ds_cpu_optimizer[^\n]*)",
        tell=lambda case: Told(
            f"DeepSpeed refuses the ds_config: {case.group('what') or case.group('other')}",
            (),
            (_CHECK,),
        ),
        where="deepspeed",
    ),
    Row(
        "precision-unsupported",
        r"Type (?P<what>fp16|bf16) is not supported on your device|"
        r"Your setup doesn't support (?P<other>bf16)|[Bb]f16 mixed precision requires",
        "this device does not do {what}{other}",
        ("--precision bf16 on CPUs and newer GPUs, fp16 on GPUs before Ampere, else fp32",),
    ),
    Row(
        "unused-parameters",
        r"Expected to have finished reduction in the prior iteration.{0,4000}?"
        r"Parameter indices which did not receive grad for rank \d+: (?P<which>[\d ]+)|"
        r"Expected to have finished reduction in the prior iteration",
        "DDP: parameters took no part in the loss: indices {which}",
        (
            (
                "DistributedDataParallel(..., find_unused_parameters=True), for the Trainer "
                "ddp_find_unused_parameters=True"
            ),
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters",
        ),
    ),
    Row(
        "nan-in-backward",
        r"Function '(?P<what>\w+)' returned nan values",
        "the backward pass gave nan in {what}",
        (
            (
                "--precision bf16 rather than fp16; a lower learning rate, gradient clipping; look "
                "at the data of that batch"
            ),
        ),
    ),
)
