"""A memory plan for a person: a row a term, a column a recipe; a list on a narrow screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from zlaunch.cli.memory_narrow import broken_command, listed, wrapped
from zlaunch.cli.memory_words import (
    NOT_INCLUDED,
    command,
    conclusion,
    heading,
    notes,
    verdict_words,
)
from zlaunch.frozen import frozen
from zlaunch.memory.advice import Advice, Verdict
from zlaunch.memory.sizes import gib
from zlaunch.memory.terms import Group, Term, total

if TYPE_CHECKING:
    from zlaunch.cli.plan import Question

_WIDE = 250  # columns where nobody says how many there are
_EDGE = 3  # columns beside each cell: two spaces and a line
_LONGEST = 24  # columns of a recipe's name in its column's head; a path is folded
_GROUPS: tuple[Group, ...] = ("states", "buffers", "activations", "overhead")
_HEAD = "GiB of one GPU at its peak"


@frozen
class _Row:
    """A line of the table; `section` where a new part begins with it."""

    name: str
    cells: tuple[str, ...]
    section: bool = False


def print_plan(asked: Question, advice: Advice) -> None:
    """Print the terms, what does not fit and why, and the recipe to take."""
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=_WIDE)

    def say(text: str) -> None:
        """A paragraph: one line, but where a screen would cut it within a number."""
        lines = wrapped(text, console.width) if console.is_terminal else text
        console.print(lines, soft_wrap=True)

    say(heading(asked))
    for verdicts in _side_by_side(advice.verdicts, console.width):
        _print_verdicts(console, verdicts)
    for verdict in advice.verdicts:
        if not verdict.fits:
            say(f"does not fit: {verdict_words(verdict)}")
    for note in notes(asked, advice):
        say(f"note: {note}")
    say(f"not included: {'; '.join(NOT_INCLUDED)}")
    say(conclusion(advice))
    if advice.best is not None:
        words = command(asked, advice.best)
        width = console.width if console.is_terminal else None
        console.print(broken_command(words, width), soft_wrap=True)


def _print_verdicts(console: Console, verdicts: tuple[Verdict, ...]) -> None:
    rows = list(_rows(verdicts))
    if len(verdicts) == 1 and 1 + _name_width(rows) + _width(verdicts[0]) > console.width:
        console.print(f"\n{verdicts[0].recipe}", soft_wrap=True)
        pairs = ((row.name, row.cells[0]) for row in rows)
        console.print(listed([(_HEAD, ""), *pairs], console.width), soft_wrap=True)
        return
    table = Table(title=None)
    table.add_column(_HEAD, no_wrap=True)
    for verdict in verdicts:
        width = _width(verdict) - _EDGE
        table.add_column(verdict.recipe, justify="right", overflow="fold", width=width)
    for row in rows:
        if row.section:
            table.add_section()
        table.add_row(row.name, *row.cells)
    console.print(table)


def _side_by_side(verdicts: tuple[Verdict, ...], width: int) -> Iterator[tuple[Verdict, ...]]:
    """As many recipes at a time as fit on the screen, at least one."""
    room = width - 1 - _name_width(list(_rows(verdicts)))
    chunk: list[Verdict] = []
    left = room
    for verdict in verdicts:
        needed = _width(verdict)
        if chunk and needed > left:
            yield tuple(chunk)
            chunk, left = [], room
        chunk.append(verdict)
        left -= needed
    yield tuple(chunk)


def _name_width(rows: Sequence[_Row]) -> int:
    return max(len(_HEAD), *(len(row.name) for row in rows)) + _EDGE


def _width(verdict: Verdict) -> int:
    """The columns of one recipe, in which none of its numbers is cut."""
    cells = (len(row.cells[0]) for row in _rows((verdict,)))
    return max(min(len(verdict.recipe), _LONGEST), *cells) + _EDGE


def _rows(verdicts: tuple[Verdict, ...]) -> Iterator[_Row]:
    yield _Row("which comes in the", tuple(v.estimate.peak.name for v in verdicts))
    for group in _GROUPS:
        sums = (sum(t.size for t in v.estimate.gpu_terms if t.group == group) for v in verdicts)
        yield _Row(group, tuple(gib(size) for size in sums), section=True)
        yield from _of_terms(verdicts, lambda v: v.estimate.gpu_terms, group)
    yield _Row("GPU needed", tuple(gib(v.estimate.gpu) for v in verdicts), section=True)
    yield _Row("GPU left", tuple(_margin(v) for v in verdicts))
    if any(v.settings.optimizer != "none" for v in verdicts):
        yield _Row("GiB of a node's memory", tuple("" for _ in verdicts), section=True)
        yield from _of_terms(verdicts, lambda v: v.estimate.host)
        yield _Row("host needed", tuple(gib(total(v.estimate.host)) for v in verdicts))
    if any(v.estimate.nvme for v in verdicts):
        yield _Row("GiB of a node's NVMe", tuple("" for _ in verdicts), section=True)
        yield from _of_terms(verdicts, lambda v: v.estimate.nvme)
        yield _Row("NVMe needed", tuple(gib(total(v.estimate.nvme)) for v in verdicts))
    yield _Row("fits", tuple("yes" if v.fits else "no" for v in verdicts), section=True)
    yield _Row("largest micro batch", tuple(str(v.largest_micro_batch or "-") for v in verdicts))


def _of_terms(
    verdicts: tuple[Verdict, ...],
    terms_of: Callable[[Verdict], Iterable[Term]],
    group: Group | None = None,
) -> Iterator[_Row]:
    """A row for each name that any recipe has a term of."""
    chosen = [[t for t in terms_of(v) if group in (None, t.group)] for v in verdicts]
    for name in dict.fromkeys(term.name for terms in chosen for term in terms):
        sizes = (sum(t.size for t in terms if t.name == name) for terms in chosen)
        yield _Row(f"  {name}", tuple(gib(size) if size else "-" for size in sizes))


def _margin(verdict: Verdict) -> str:
    margin = verdict.margin
    return gib(margin) if margin >= 0 else f"-{gib(-margin)}"
