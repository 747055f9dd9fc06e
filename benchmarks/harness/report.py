"""Turns outcomes into a Markdown table and into JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from harness.case import Case, Outcome, Quantity, Value
from harness.contender import NAMES, ZLAUNCH


def markdown(outcomes: Iterable[Outcome]) -> str:
    """One row per quantity: medians, and how many times zlaunch's they are.

    Cases between the launchers of one machine are one table, and what has others in it the next.
    """
    notes: list[str] = []
    tables = [_table(list(group), notes) for _, group in groupby(outcomes, _among_usual)]
    remarks = "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    return "\n".join([*tables, remarks] if remarks else tables)


def _among_usual(outcome: Outcome) -> bool:
    return {contender.name for contender in outcome.case.contenders} <= set(NAMES)


def _table(outcomes: Sequence[Outcome], notes: list[str]) -> str:
    there = dict.fromkeys(c.name for outcome in outcomes for c in outcome.case.contenders)
    names = NAMES if _among_usual(outcomes[0]) else tuple(there)
    rows = [("", *names), ("---", *("---:" for _ in names))]
    for outcome in outcomes:
        for index, quantity in enumerate(outcome.case.quantities):
            cells = [_cell(outcome, name, index, notes) for name in names]
            rows.append((f"{outcome.case.title}: {quantity.name}", *cells))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(outcome: Outcome, name: str, index: int, notes: list[str]) -> str:
    """The number, and a reference to the reason where there is none or a round failed."""
    value = outcome.typical(name, index)
    reason = outcome.reasons().get(name)
    text = "" if value is None else _compared(outcome, name, index, value)
    return f"{text or '-'} {_remark(reason, notes)}" if reason else text


def _compared(outcome: Outcome, name: str, index: int, value: Value) -> str:
    quantity = outcome.case.quantities[index]
    if isinstance(value, str):
        return value
    text = written(value, quantity.unit)
    ours = outcome.typical(ZLAUNCH, index)
    if name == ZLAUNCH or not quantity.compared or not ours or isinstance(ours, str):
        return text
    return f"{text} (x{written(value / ours, '')})"


def _remark(text: str, notes: list[str]) -> str:
    if text not in notes:
        notes.append(text)
    return f"[{notes.index(text) + 1}]"


def written(value: float, unit: str) -> str:
    """A number as a person wants it: three digits, or all before the point."""
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.{digits}f}"
    return f"{number} {unit}" if unit else number


def as_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Everything that was measured, round by round."""
    return [
        _quantity_json(outcome, outcome.case, index, quantity)
        for outcome in outcomes
        for index, quantity in enumerate(outcome.case.quantities)
    ]


def _quantity_json(outcome: Outcome, case: Case, index: int, quantity: Quantity) -> dict[str, Any]:
    typical: dict[str, Value | None] = {
        c.name: outcome.typical(c.name, index) for c in case.contenders
    }
    return {
        "case": case.title,
        "quantity": quantity.name,
        "unit": quantity.unit,
        "typical": typical,
        "samples": {name: outcome.samples(name, index) for name in outcome.values},
        "reasons": dict(outcome.reasons()),
    }
