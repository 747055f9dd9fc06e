"""Lint: everything that is wrong with a ds_config, before anything starts.

    error     DeepSpeed or its caller fails, or trains something else than is written
    warning   something has no effect, or not the one that it seems to have
    note      good to know

A config that DeepSpeed accepts and that does what it says has no finding above a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.finding import LEVELS, Around, Finding, Level, Look
from zlaunch.dsconfig.lint_auto import check_autos
from zlaunch.dsconfig.lint_batch import check_batch
from zlaunch.dsconfig.lint_counts import check_counts
from zlaunch.dsconfig.lint_disk import check_disks
from zlaunch.dsconfig.lint_keys import check_keys
from zlaunch.dsconfig.lint_optimizer import check_optimizer
from zlaunch.dsconfig.lint_precision import check_precision_sections
from zlaunch.dsconfig.lint_scheduler import check_scheduler
from zlaunch.dsconfig.lint_speech import check_speech
from zlaunch.dsconfig.lint_syntax import check_syntax
from zlaunch.dsconfig.lint_values import check_values
from zlaunch.dsconfig.lint_zero import check_zero

_CHECKS: tuple[Callable[[Look], Iterator[Finding]], ...] = (
    check_syntax,
    check_keys,
    check_values,
    check_autos,
    check_batch,
    check_counts,
    check_precision_sections,
    check_zero,
    check_disks,
    check_optimizer,
    check_scheduler,
    check_speech,
)


def lint(document: Document, around: Around) -> tuple[Finding, ...]:
    """Everything found, in the order of the file, what concerns the whole of it first.

    A place that one check has found wrong is not judged again by those behind it.
    """
    look = Look(document, around)
    found: list[Finding] = []
    for check in _CHECKS if isinstance(document.value, dict) else (check_syntax,):
        wrong = {finding.path for finding in found if finding.level == "error" and finding.path}
        found += [finding for finding in check(look) if finding.path not in wrong]
    return tuple(sorted(found, key=_order))


def _order(finding: Finding) -> tuple[int, int, int]:
    line, column = (finding.place.line, finding.place.column) if finding.place else (0, 0)
    return line, column, LEVELS.index(finding.level)


def count(findings: Sequence[Finding], level: Level) -> int:
    """How many findings have that level."""
    return sum(finding.level == level for finding in findings)
