"""Lint: the scheduler, and what it is built with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zlaunch.dsconfig.finding import Finding, Look, said
from zlaunch.dsconfig.lint_optimizer import no_type
from zlaunch.dsconfig.optimizers import OF_PYTHON, SCHEDULER_PARAMS, SCHEDULERS
from zlaunch.dsconfig.spelling import nearest
from zlaunch.dsconfig.versions import WARMUP_CHECKED_SINCE, spelled


def check_scheduler(look: Look) -> Iterator[Finding]:
    """Its type, the parameters of its class, and a warm-up that is none."""
    section = look.section("scheduler")
    if not section:
        return
    name = section.get("type")
    if not isinstance(name, str):
        if name is None and look.document.complete:
            text = "scheduler has no type, so DeepSpeed makes none from it"
            mend = 'add "type": "WarmupLR"'
            yield look.finds("error", "needs-key", ("scheduler",), text, mend, at_value=False)
        return
    types = look.schema.schedulers or SCHEDULERS
    if name not in types:
        yield no_type(look, "scheduler", name, types)
        return
    if section.get("params") is None:
        text = "scheduler has no params, and DeepSpeed fails without"
        mend = 'add "params": {}'
        yield look.finds("error", "needs-key", ("scheduler",), text, mend, at_value=False)
    params = look.section("scheduler", "params")
    if name in SCHEDULER_PARAMS:
        own, needs = (words.split() for words in SCHEDULER_PARAMS[name])
        yield from _scheduler_params(look, name, params, own, needs)
        yield from _warmup(look, name)
        yield from _steps(look)
    elif name in OF_PYTHON:
        text = f"the scheduler {name} takes {OF_PYTHON[name]}, and no file can hold them"
        mend = "have the script make it: deepspeed.initialize(lr_scheduler=...)"
        yield look.finds("error", "needs-script", ("scheduler", "type"), text, mend)
    elif name in look.schema.scheduler_parameters:
        yield from _scheduler_params(look, name, params, *look.schema.scheduler_parameters[name])


def _scheduler_params(
    look: Look, name: str, params: Mapping[str, Any], known: Sequence[str], needed: Sequence[str]
) -> Iterator[Finding]:
    for key in params:
        if key not in known:
            near = nearest(key, known, 0.7)
            others = [one for one, (keys, _) in SCHEDULER_PARAMS.items() if key in keys.split()]
            text = f"the scheduler {name} has no parameter {key}"
            if others:
                text += f"; {' and '.join(others)} {'have' if len(others) > 1 else 'has'} it"
            mend = f"did you mean {near}?" if near else "take it out"
            path = ("scheduler", "params", key)
            yield look.finds("error", "unknown-key", path, text, mend, at_value=False)
    missing = [key for key in needed if key not in params]
    if missing and look.section("scheduler").get("params") is not None:
        text = f"the scheduler {name} needs {' and '.join(missing)}"
        mend = f"add {' and '.join(missing)} to params"
        where = ("scheduler", "params")
        yield look.finds("error", "needs-key", where, text, mend, at_value=False)


def _steps(look: Look) -> Iterator[Finding]:
    """Sizes of the steps of OneCycle and LRRangeTest, which DeepSpeed refuses."""
    for key, least, above in _STEP_SIZES:
        path = ("scheduler", "params", key)
        value = look.number(*path) if look.get(*path) is not None else None
        if value is not None and (value <= least if above else value < least):
            bound = "above" if above else "at least"
            text = f"{key} is {said(look.get(*path))}; it has to be {bound} 0"
            yield look.finds("error", "out-of-range", path, text, "change it, or leave it out")


_STEP_SIZES = (
    ("cycle_first_step_size", 0, True),
    ("cycle_second_step_size", 0, False),
    ("lr_range_test_step_size", 0, True),
)


def _warmup(look: Look, name: str) -> Iterator[Finding]:
    path = ("scheduler", "params")
    for key in ("warmup_min_lr", "warmup_max_lr", "cycle_min_lr", "lr_range_test_min_lr"):
        value = look.number(*path, key)
        if value is not None and value < 0:
            text = f"{key} is {value}; it cannot be negative"
            yield look.finds("error", "out-of-range", (*path, key), text, "write 0 or more")
    steps = look.get(*path, "warmup_num_steps")
    number = look.number(*path, "warmup_num_steps")
    if isinstance(steps, float) and look.schema.version >= WARMUP_CHECKED_SINCE:
        text = f"warmup_num_steps is {said(steps)}, and DeepSpeed takes integers only"
        mend = "write it without exponent"
        yield look.finds("error", "not-whole", (*path, "warmup_num_steps"), text, mend)
    elif steps is not None and number is not None and number <= 0:
        text = f"warmup_num_steps is {said(steps)}"
        if look.schema.version >= WARMUP_CHECKED_SINCE:
            text += f"; DeepSpeed {spelled(look.schema.version)} refuses fewer than 1"
            mend = "write 1 for no warm-up"
            yield look.finds("error", "zero-warmup", (*path, "warmup_num_steps"), text, mend)
        else:
            text += "; this DeepSpeed takes 2, and newer ones refuse it"
            mend = "write 2"
            yield look.finds("warning", "zero-warmup", (*path, "warmup_num_steps"), text, mend)
    total = look.number(*path, "total_num_steps")
    if total is not None and number is not None and name != "WarmupLR" and total < number:
        text = f"total_num_steps {total} is less than warmup_num_steps {number}:"
        text += " training ends before the warm-up does"
        yield look.finds(
            "warning", "short-training", (*path, "total_num_steps"), text, "change one"
        )
