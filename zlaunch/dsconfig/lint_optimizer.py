"""Lint: the optimizer and the scheduler, and what they are built with."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.finding import Finding, Look, said
from zlaunch.dsconfig.lint_precision import is_on
from zlaunch.dsconfig.optimizers import (
    OPTIMIZER_PARAMS,
    OWN_OPTIMIZERS,
    SCHEDULER_PARAMS,
    SCHEDULERS,
    TESTED_WITH_ZERO,
    TORCH_OPTIMIZERS,
)
from zlaunch.dsconfig.values import number_in
from zlaunch.dsconfig.versions import WARMUP_CHECKED_SINCE, spelled

_EXAMPLES = {"optimizer": "AdamW", "scheduler": "WarmupLR"}


def check_optimizer(look: Look) -> Iterator[Finding]:
    """Its type, and the parameters that its class takes."""
    section = look.section("optimizer")
    if not section:
        return
    name = section.get("type")
    params = look.section("optimizer", "params")
    if not isinstance(name, str):
        if name is None and look.document.complete:
            text = "optimizer has no type, so DeepSpeed makes none from it"
            mend = 'add "type": "AdamW"'
            yield look.finds("error", "needs-key", ("optimizer",), text, mend, at_value=False)
        return
    if not _is_optimizer(look, name):
        yield _no_type(look, "optimizer", name, _optimizers(look))
        return
    yield from _untested(look, name)
    yield from _optimizer_params(look, name.lower(), params)


def _optimizers(look: Look) -> frozenset[str]:
    return look.schema.optimizers or OWN_OPTIMIZERS | TORCH_OPTIMIZERS


def _is_optimizer(look: Look, name: str) -> bool:
    known = _optimizers(look)
    own = {one for one in known if one.islower()}
    return name in known or name.lower() in own


def _no_type(look: Look, section: str, name: str, known: frozenset[str]) -> Finding:
    version = spelled(look.schema.version)
    folded = {one.lower(): one for one in sorted(known)}
    near = difflib.get_close_matches(name.lower(), folded, 1, 0.6)
    shown = {"adam": "Adam", "adamw": "AdamW", "lamb": "Lamb", "lion": "Lion"}
    named = shown.get(folded[near[0]], folded[near[0]]) if near else ""
    mend = f"did you mean {named}?" if near else f"such as {_EXAMPLES[section]}"
    text = f'DeepSpeed {version} has no {section} "{name}", and torch has none of that name'
    if named.lower() == name.lower():
        text = f'DeepSpeed {version} has no {section} "{name}": its name is spelled {named}'
    return look.finds("error", f"unknown-{section}", (section, "type"), text, mend)


def _untested(look: Look, name: str) -> Iterator[Finding]:
    stage = look.number("zero_optimization", "stage") or 0
    if (
        not stage
        or name.lower() in TESTED_WITH_ZERO
        or name.lower().startswith(("onebit", "zeroone"))
    ):
        return
    if not is_on(look.config.get("zero_allow_untested_optimizer")):
        text = f'ZeRO has not been tested with the optimizer "{name}", and DeepSpeed refuses it'
        mend = 'add "zero_allow_untested_optimizer": true at the top'
        yield look.finds("error", "untested-optimizer", ("optimizer", "type"), text, mend)


def _optimizer_params(look: Look, name: str, params: Mapping[str, Any]) -> Iterator[Finding]:
    path = ("optimizer", "params")
    known = OPTIMIZER_PARAMS.get(name)
    for key in params:
        if key == "max_grad_norm":
            text = "max_grad_norm is no parameter of the optimizer here; DeepSpeed refuses it"
            mend = 'write "gradient_clipping" at the top'
            yield look.finds("error", "misplaced-key", (*path, key), text, mend, at_value=False)
        elif known is not None and key not in known:
            near = difflib.get_close_matches(key, known, 1, 0.7)
            near = ["lr"] if key == "learning_rate" else near
            text = f"the optimizer {name} has no parameter {key}"
            mend = f"did you mean {near[0]}?" if near else "take it out"
            yield look.finds("error", "unknown-key", (*path, key), text, mend, at_value=False)
    yield from _betas(look, params.get("betas"))
    for key in ("lr", "eps", "weight_decay"):
        value = look.number(*path, key)
        if value is not None and value < 0:
            text = f"{key} is {value}; it cannot be negative"
            yield look.finds("error", "out-of-range", (*path, key), text, "write 0 or more")
    lr = look.number(*path, "lr")
    if lr == 0 and not look.section("scheduler"):
        text = "lr is 0, and no scheduler changes it: nothing is learned"
        yield look.finds("warning", "zero-lr", (*path, "lr"), text, "write a learning rate")


def _betas(look: Look, betas: Any) -> Iterator[Finding]:
    if not isinstance(betas, list):
        return
    numbers = [number_in(beta) if isinstance(beta, str) else beta for beta in betas]
    fit = len(numbers) == 2 and all(
        isinstance(beta, (int, float)) and not isinstance(beta, bool) and 0 <= beta < 1
        for beta in numbers
    )
    if not fit:
        text = f"betas is {betas}; it has to be two numbers from 0 on and below 1"
        path = ("optimizer", "params", "betas")
        yield look.finds("error", "out-of-range", path, text, "such as [0.9, 0.999]")


def check_scheduler(look: Look) -> Iterator[Finding]:
    """Its type, the parameters of DeepSpeed's own ones, and a warm-up that is none."""
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
    known = look.schema.schedulers or SCHEDULERS
    if name not in known:
        yield _no_type(look, "scheduler", name, known)
        return
    if section.get("params") is None:
        text = "scheduler has no params, and DeepSpeed fails without"
        mend = 'add "params": {}'
        yield look.finds("error", "needs-key", ("scheduler",), text, mend, at_value=False)
    if name in SCHEDULER_PARAMS:
        yield from _scheduler_params(look, name, look.section("scheduler", "params"))
        yield from _warmup(look, name)


def _scheduler_params(look: Look, name: str, params: Mapping[str, Any]) -> Iterator[Finding]:
    known, needed = (words.split() for words in SCHEDULER_PARAMS[name])
    for key in params:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1, 0.7)
            others = [one for one, (keys, _) in SCHEDULER_PARAMS.items() if key in keys.split()]
            text = f"the scheduler {name} has no parameter {key}"
            if others:
                text += f"; {' and '.join(others)} {'have' if len(others) > 1 else 'has'} it"
            mend = f"did you mean {near[0]}?" if near else "take it out"
            path = ("scheduler", "params", key)
            yield look.finds("error", "unknown-key", path, text, mend, at_value=False)
    missing = [key for key in needed if key not in params]
    if missing and look.section("scheduler").get("params") is not None:
        text = f"the scheduler {name} needs {' and '.join(missing)}"
        mend = f"add {' and '.join(missing)} to params"
        where = ("scheduler", "params")
        yield look.finds("error", "needs-key", where, text, mend, at_value=False)


def _warmup(look: Look, name: str) -> Iterator[Finding]:
    path = ("scheduler", "params")
    for key in ("warmup_min_lr", "warmup_max_lr"):
        value = look.number(*path, key)
        if value is not None and value < 0:
            text = f"{key} is {value}; it cannot be negative"
            yield look.finds("error", "out-of-range", (*path, key), text, "write 0 or more")
    steps = look.get(*path, "warmup_num_steps")
    number = look.number(*path, "warmup_num_steps")
    if steps is not None and number is not None and number <= 0:
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
    if total is not None and number is not None and name != "WarmupLR" and 0 < total < number:
        text = f"total_num_steps {total} is less than warmup_num_steps {number}:"
        text += " training ends before the warm-up does"
        yield look.finds(
            "warning", "short-training", (*path, "total_num_steps"), text, "change one"
        )
