"""A memory plan for a person: a row a term, a column a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from zlaunch.cli.memory_words import NOT_INCLUDED, command, heading, notes, verdict_words
from zlaunch.memory.advice import Advice, Verdict
from zlaunch.memory.sizes import gib
from zlaunch.memory.terms import Group, Term, total

if TYPE_CHECKING:
    from zlaunch.cli.plan import Question

_WIDE = 250  # columns where nobody says how many there are
_NAMES = 38  # columns of the longest term and the table's edges
_GROUPS: tuple[Group, ...] = ("states", "buffers", "activations", "overhead")


def print_plan(asked: Question, advice: Advice) -> None:
    """Print the terms, what does not fit and why, and the recipe to take."""
    plain = Console(markup=False, highlight=False, soft_wrap=True)
    plain.print(heading(asked))
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=_WIDE)
    for verdicts in _side_by_side(advice.verdicts, console.width):
        console.print(_table(verdicts))
    for verdict in advice.verdicts:
        if not verdict.fits:
            plain.print(f"does not fit: {verdict_words(verdict)}")
    for note in notes(asked, advice):
        plain.print(f"note: {note}")
    plain.print(f"not included: {'; '.join(NOT_INCLUDED)}")
    best = advice.best
    if best is None:
        plain.print("no recipe fits")
        return
    plain.print(
        f"recommended: {best.recipe}, up to a micro batch of {best.largest_micro_batch}:"
        f" {command(asked, best)}"
    )


def _side_by_side(verdicts: tuple[Verdict, ...], width: int) -> Iterator[tuple[Verdict, ...]]:
    """As many recipes at a time as fit on the screen, at least one."""
    chunk: list[Verdict] = []
    left = width - _NAMES
    for verdict in verdicts:
        needed = max(len(verdict.recipe), len(verdict.estimate.peak.name)) + 3
        if chunk and needed > left:
            yield tuple(chunk)
            chunk, left = [], width - _NAMES
        chunk.append(verdict)
        left -= needed
    yield tuple(chunk)


def _table(verdicts: tuple[Verdict, ...]) -> Table:
    table = Table(title=None)
    table.add_column("GiB of one GPU at its peak", no_wrap=True)
    for verdict in verdicts:
        table.add_column(verdict.recipe, justify="right", overflow="fold")
    table.add_row("which comes in the", *(v.estimate.peak.name for v in verdicts))
    for group in _GROUPS:
        table.add_section()
        sums = (sum(t.size for t in v.estimate.gpu_terms if t.group == group) for v in verdicts)
        table.add_row(group, *(gib(size) for size in sums))
        _add_terms(table, verdicts, lambda v: v.estimate.gpu_terms, group)
    table.add_section()
    table.add_row("GPU needed", *(gib(v.estimate.gpu) for v in verdicts))
    table.add_row("GPU left", *(_margin(v) for v in verdicts))
    if any(v.settings.optimizer != "none" for v in verdicts):
        table.add_section()
        table.add_row("GiB of a node's memory", *("" for _ in verdicts))
        _add_terms(table, verdicts, lambda v: v.estimate.host)
        table.add_row("host needed", *(gib(total(v.estimate.host)) for v in verdicts))
    if any(v.estimate.nvme for v in verdicts):
        table.add_section()
        table.add_row("GiB of a node's NVMe", *("" for _ in verdicts))
        _add_terms(table, verdicts, lambda v: v.estimate.nvme)
        table.add_row("NVMe needed", *(gib(total(v.estimate.nvme)) for v in verdicts))
    table.add_section()
    table.add_row("fits", *("yes" if v.fits else "no" for v in verdicts))
    table.add_row("largest micro batch", *(str(v.largest_micro_batch or "-") for v in verdicts))
    return table


def _add_terms(
    table: Table,
    verdicts: tuple[Verdict, ...],
    terms_of: Callable[[Verdict], Iterable[Term]],
    group: Group | None = None,
) -> None:
    """A row for each name that any recipe has a term of."""
    chosen = [[t for t in terms_of(v) if group in (None, t.group)] for v in verdicts]
    for name in dict.fromkeys(term.name for terms in chosen for term in terms):
        sizes = (sum(t.size for t in terms if t.name == name) for terms in chosen)
        table.add_row(f"  {name}", *(gib(size) if size else "-" for size in sizes))


def _margin(verdict: Verdict) -> str:
    margin = verdict.margin
    return gib(margin) if margin >= 0 else f"-{gib(-margin)}"
