"""Commands that have options of other commands, declared there once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any


def parameters_of(command: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a command by name, as Typer reads them."""
    return dict(inspect.signature(command, eval_str=True).parameters)


def borrow(
    command: Callable[..., Any],
    *lenders: Callable[..., Any],
    only: Collection[str] | None = None,
    without: Collection[str] = (),
) -> None:
    """Give `command`, which ends in `**options`, parameters of others beside its own.

    `only` and `without` choose among those of the lenders. Script and arguments stay in front.
    """
    own = parameters_of(command)
    lent = {name: p for lender in lenders for name, p in parameters_of(lender).items()}
    taken = [
        parameter
        for name, parameter in lent.items()
        if name not in own and name not in without and (only is None or name in only)
    ]
    mine = [p for p in own.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    first = [p for p in taken if p.name in {"script", "args"}]
    parameters = [*first, *mine, *(p for p in taken if p not in first)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
