"""Runs a case: its contenders take turns, so that all meet the same noise."""

from __future__ import annotations

import sys

from harness.case import Case, Outcome, Unmeasured


def alternate(case: Case, rounds: int) -> Outcome:
    """Let every contender do the case `rounds` times, each round begun by another one."""
    outcome = Outcome(case)
    able = [contender for contender in case.contenders if contender.cannot is None]
    for number in range(rounds if able else 0):
        first = number % len(able)
        for contender in able[first:] + able[:first]:
            if contender.name in outcome.failures:
                continue
            _say(f"{case.title}: {contender.name} {number + 1}/{rounds}")
            try:
                values = case.measure(contender)
            except Unmeasured as reason:
                outcome.failures[contender.name] = str(reason)
            else:
                outcome.values.setdefault(contender.name, []).append(values)
    _say("")
    return outcome


def _say(text: str) -> None:
    """Show how far it is, on one line of a terminal; a file gets nothing."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
