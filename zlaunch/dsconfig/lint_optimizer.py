"""Lint: the optimizer, and what it is built with."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.finding import Finding, Look
from zlaunch.dsconfig.lint_precision import is_on
from zlaunch.dsconfig.lint_zero import offload_device
from zlaunch.dsconfig.misnamed import ONE_BIT, PARAMS, TYPES
from zlaunch.dsconfig.optimizers import (
    OPTIMIZER_PARAMS,
    OWN_ADAM,
    OWN_OPTIMIZERS,
    TESTED_WITH_ZERO,
    TORCH_ADAM,
    TORCH_OPTIMIZERS,
)
from zlaunch.dsconfig.spelling import nearest
from zlaunch.dsconfig.values import number_in
from zlaunch.dsconfig.versions import spelled

_WITHOUT_AMSGRAD = ("adam", "adamw", "lamb")
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
        yield no_type(look, "optimizer", name, _optimizers(look))
        return
    yield from _untested(look, name)
    yield from _never(look, name)
    yield from _optimizer_params(look, name, params)


def _optimizers(look: Look) -> frozenset[str]:
    return look.schema.optimizers or OWN_OPTIMIZERS | TORCH_OPTIMIZERS


def _is_optimizer(look: Look, name: str) -> bool:
    known = _optimizers(look)
    own = {one for one in known if one.islower()}
    return name in known or name.lower() in own


def no_type(look: Look, section: str, name: str, known: frozenset[str]) -> Finding:
    """An optimizer or a scheduler that is not there, with the one that was meant."""
    version = spelled(look.schema.version)
    folded = {one.lower(): one for one in sorted(known)}
    near = difflib.get_close_matches(name.lower(), folded, 1, 0.6)
    shown = {"adam": "Adam", "adamw": "AdamW", "lamb": "Lamb", "lion": "Lion"}
    named = shown.get(folded[near[0]], folded[near[0]]) if near else ""
    named = TYPES[section].get(name.lower(), named)
    mend = f"did you mean {named}?" if named else f"such as {_EXAMPLES[section]}"
    text = f'DeepSpeed {version} has no {section} "{name}", and torch has none of that name'
    if name.lower() in ONE_BIT:
        text = f'DeepSpeed {version} has no optimizer "{name}": its 1-bit optimizers were taken out'
        mend = f"such as {_EXAMPLES[section]}"
    elif named.lower() == name.lower():
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


def _never(look: Look, name: str) -> Iterator[Finding]:
    """Optimizers that exist, and that DeepSpeed cannot train with here."""
    where = ("optimizer", "type")
    stage = look.number("zero_optimization", "stage")
    if name == "LBFGS":
        text = "LBFGS needs a closure at every step, and DeepSpeed gives none"
        yield look.finds("error", "needs-script", where, text, "such as AdamW")
    if name.lower() == "muon" and stage == 3:
        path = ("zero_optimization", "reduce_scatter")
        if look.get(*path) is not False:
            text = "Muon with ZeRO stage 3 needs reduce_scatter off; DeepSpeed refuses it otherwise"
            mend = 'add "reduce_scatter": false to zero_optimization'
            yield look.finds("error", "muon-scatter", where, text, mend)
    on_host = offload_device(look, "offload_optimizer") is not None
    if look.around.cpu and (name.lower() == "lamb" or (name.lower() == "lion" and not on_host)):
        text = f"DeepSpeed has its {name} for GPUs only, and these are CPUs"
        yield look.finds("error", "needs-gpu", where, text, "such as AdamW")


def _optimizer_params(look: Look, name: str, params: Mapping[str, Any]) -> Iterator[Finding]:
    path = ("optimizer", "params")
    # A name of DeepSpeed's own, in any case, comes before torch's.
    own = name.lower() in OWN_OPTIMIZERS
    known = OPTIMIZER_PARAMS.get(name.lower()) if own else look.schema.parameters.get(name)
    of_torch = known is OWN_ADAM and is_on(params.get("torch_adam"))
    known = TORCH_ADAM if of_torch else known
    for key in params:
        if key == "max_grad_norm":
            text = "max_grad_norm is no parameter of the optimizer here; DeepSpeed refuses it"
            mend = 'write "gradient_clipping" at the top'
            yield look.finds("error", "misplaced-key", (*path, key), text, mend, at_value=False)
        elif known is not None and key not in known:
            meant = PARAMS.get(key.lower())
            near = meant if meant in known else nearest(key, known, 0.7)
            text = f"the optimizer {name} has no parameter {key or 'without a name'}"
            text += " where torch_adam is on" if of_torch else ""
            mend = f"did you mean {near}?" if near else "take it out"
            if known is OWN_ADAM and key in TORCH_ADAM:
                mend = 'take it out, or add "torch_adam": true'
            yield look.finds("error", "unknown-key", (*path, key), text, mend, at_value=False)
    if name.lower() in _WITHOUT_AMSGRAD and not of_torch and params.get("amsgrad"):
        text = f"DeepSpeed's own {name} has no amsgrad, and refuses it"
        mend = "write false"
        mend += ', or add "torch_adam": true' if known is OWN_ADAM else ""
        yield look.finds("error", "no-amsgrad", (*path, "amsgrad"), text, mend)
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
