"""Commands that have options of other commands, declared there once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Annotated, Any, get_args

from typer.models import OptionInfo


def parameters_of(command: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a command by name, as Typer reads them."""
    return dict(inspect.signature(command, eval_str=True).parameters)


def borrow(
    command: Callable[..., Any],
    *lenders: Callable[..., Any],
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    helps: Mapping[str, str] | None = None,
) -> None:
    """Give `command`, which ends in `**options`, parameters of others beside its own.

    `only` and `without` choose among those of the lenders; `helps` has other texts for some.
    Script and arguments stay in front.
    """
    own = parameters_of(command)
    lent = {name: p for lender in lenders for name, p in parameters_of(lender).items()}
    taken = [
        _with_help(parameter, (helps or {}).get(name))
        for name, parameter in lent.items()
        if name not in own and name not in without and (only is None or name in only)
    ]
    mine = [p for p in own.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    first = [p for p in taken if p.name in {"script", "args"}]
    parameters = [*first, *mine, *(p for p in taken if p not in first)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}


def _with_help(parameter: inspect.Parameter, text: str | None) -> inspect.Parameter:
    """The same parameter, explained by `text`."""
    if text is None:
        return parameter
    kind, *details = get_args(parameter.annotation)
    changed = []
    for detail in details:
        told = copy(detail)
        if isinstance(told, OptionInfo):
            told.help = text
        changed.append(told)
    annotation: Any = Annotated
    parts = (kind, *changed)
    return parameter.replace(annotation=annotation[parts])
