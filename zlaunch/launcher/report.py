"""What zlaunch itself says about a run: at the start, on stopping, at the end."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from zlaunch.insight.loss_scale_state import Summary
from zlaunch.run.messages import Exit, Exited
from zlaunch.run.outcome import Outcome


def duration(seconds: float) -> str:
    """`0.8 s`, `2:05 min`, `3:20:00 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


def describe_exit(end: Exit) -> str:
    """`exit code 3`, `killed by signal 9 (SIGKILL)`."""
    if end.signal is None:
        return f"exit code {end.code}"
    try:
        name = f" ({signal.Signals(end.signal).name})"
    except ValueError:
        name = ""
    return f"killed by signal {end.signal}{name}"


def describe_ranks(ranks: frozenset[int]) -> str:
    """`rank 3`, `ranks 0, 2-7`."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"rank{'s' if len(ranks) != 1 else ''} {text}"


def failure(first: Exited, pid: int | None, place: str) -> str:
    """The line above the failing rank's own last words."""
    where = f" on {place}" if place else ""
    which = f" (pid {pid})" if pid else ""
    how = describe_exit(first.exit)
    return f"rank {first.rank}{where}{which} failed first: {how}; its last lines:"


def others(outcome: Outcome) -> str | None:
    """One line for the ranks that did not end well beside the first; None if there is none."""
    first = outcome.first_failure
    ends: dict[str, set[int]] = {}
    for rank, end in outcome.exits.items():
        if end.exit.status and (first is None or rank != first.rank):
            ends.setdefault(_other_end(end.exit), set()).add(rank)
    if not ends:
        return None
    return "; ".join(f"{describe_ranks(frozenset(ranks))}: {how}" for how, ranks in ends.items())


def _other_end(end: Exit) -> str:
    if end.signal in (signal.SIGTERM, signal.SIGKILL):
        how = "" if end.signal == signal.SIGTERM else " after the grace (KILL)"
        return f"stopped by zlaunch{how}"
    return describe_exit(end)


def summary(run_id: str, outcome: Outcome, seconds: float, world_size: int, logs: str) -> str:
    """The last line of a run."""
    ranks = f"{world_size} rank{'s' if world_size != 1 else ''}"
    return f"run {run_id} {_ending(outcome)}: {ranks}, {duration(seconds)}; logs in {logs}"


def untold(trouble: str | None, said: Sequence[str]) -> str:
    """What of an outcome's trouble was not told when it came up."""
    text = trouble or ""
    for words in said:
        text = text.replace(words, "", 1)
    return "\n".join(line for line in text.splitlines() if line)


def nothing_started(run_id: str, outcome: Outcome) -> str:
    """The last line of a run in which no rank came to life."""
    return f"run {run_id} {_ending(outcome)}; no rank was started"


def farewell(run_id: str, outcome: Outcome) -> str:
    """How a run ended, for the nodes on which the launcher does not speak."""
    first, words = outcome.first_failure, f"run {run_id} {_ending(outcome)}"
    if first is not None:
        return f"{words}: rank {first.rank} failed first, {describe_exit(first.exit)}"
    if outcome.unfit and outcome.trouble:
        return f"{words}: {outcome.trouble}"
    return f"{words}: {outcome.trouble.splitlines()[0]}" if outcome.trouble else words


def _ending(outcome: Outcome) -> str:
    code = outcome.exit_code
    if code == 0:
        return "finished"
    if outcome.first_failure is None and outcome.stopped_by is not None:
        return f"was stopped by {signal.Signals(outcome.stopped_by).name} (exit code {code})"
    return f"failed (exit code {code})"


def loss_scale(summary: Summary | None) -> tuple[str, str] | None:
    """Text and level of the loss scale's line; None where there is nothing to tell."""
    if summary is None:
        return None
    calm = summary.verdict in ("settled", "searching") and not summary.at_minimum
    return summary.text, "info" if calm else "warning"


def labels(hosts: Mapping[int, str], world_size: int, nodes: int) -> dict[int, str]:
    """The tag of each rank: `host:rank`, or the rank alone on one node; all of one width."""
    width = len(str(world_size - 1))
    if nodes == 1:
        return {rank: f"{rank:>{width}}" for rank in hosts}
    texts = {rank: f"{host}:{rank}" for rank, host in hosts.items()}
    widest = max(map(len, texts.values()))
    return {rank: text.ljust(widest) for rank, text in texts.items()}
