"""What zlaunch itself says about a run: at the start, on stopping, at the end."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from zlaunch.insight.evidence import Diagnosis
from zlaunch.insight.loss_scale_state import Summary
from zlaunch.run.messages import Exit, Exited, Refused
from zlaunch.run.outcome import Outcome
from zlaunch.spec.ranks import describe_ranks
from zlaunch.spec.topology import Topology


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


def with_host(refused: Refused, topology: Topology) -> Refused:
    """Name the host, where there are several."""
    if len(topology.nodes) == 1:
        return refused
    host = topology.nodes[topology.workers[refused.rank].node_rank].host
    return Refused(refused.rank, f"{host}: {refused.reason}")


def failure(first: Exited, pid: int | None, place: str, *, quoted: bool = True) -> str:
    """The line above the failing rank's own last words; the time is that of its host."""
    at = time.strftime("%H:%M:%S", time.localtime(first.at)) + f".{int(first.at * 1000) % 1000:03}"
    how = describe_exit(first.exit)
    more = "; its last lines:" if quoted else "; it printed nothing"
    return f"{_which(first.rank, pid, place)} failed first, at {at}: {how}{more}"


def stuck(rank: int, pid: int | None, place: str) -> str:
    """The line above the last words of a rank that failed and never got to its end."""
    return f"{_which(rank, pid, place)} had failed, and its process did not end; its last lines:"


def _which(rank: int, pid: int | None, place: str) -> str:
    where = f" on {place}" if place else ""
    return f"rank {rank}{where}" + (f" (pid {pid})" if pid else "")


def others(
    outcome: Outcome, culprit: Exited | None = None, diagnosis: Diagnosis | None = None
) -> str | None:
    """One line for the ranks that did not end well beside the culprit; None if there is none."""
    same = _alike(culprit, diagnosis)
    victims = diagnosis.victims if diagnosis is not None else {}
    ends: dict[str, set[int]] = {}
    for rank, end in outcome.exits.items():
        if end.exit.status and (culprit is None or rank != culprit.rank):
            how = "the same traceback" if rank in same else _other_end(end)
            if rank in victims and not end.told:
                how = victims[rank]
            ends.setdefault(how, set()).add(rank)
    if not ends:
        return None
    return "; ".join(f"{describe_ranks(frozenset(ranks))}: {how}" for how, ranks in ends.items())


def _alike(culprit: Exited | None, diagnosis: Diagnosis | None) -> set[int]:
    """The ranks that printed the traceback that the culprit did."""
    groups = diagnosis.tracebacks if culprit and diagnosis else ()
    return {rank for one in groups if culprit and culprit.rank in one.ranks for rank in one.ranks}


def _other_end(end: Exited) -> str:
    how = describe_exit(end.exit)
    if not end.told:
        return how
    if end.exit.status == 128 + signal.SIGTERM:
        return "stopped by zlaunch"
    if end.exit.signal == signal.SIGKILL:
        return "stopped by zlaunch after the grace (KILL)"
    return f"stopped by zlaunch ({how})"


def attempts(outcome: Outcome) -> list[str]:
    """A line for each attempt that was to be followed by another."""
    return [
        f"attempt {one.number}: rank {one.first_failure.rank} failed after "
        f"{duration(one.seconds)}, {describe_exit(one.first_failure.exit)}"
        for one in outcome.past
    ]


def summary(run_id: str, outcome: Outcome, seconds: float, world_size: int, logs: str) -> str:
    """The last line of a run."""
    ranks = f"{world_size} rank{'s' if world_size != 1 else ''}"
    if outcome.attempts > 1:
        ranks += f", {outcome.attempts} attempts"
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
    if outcome.limit is not None:
        return f"{words}: {outcome.limit}"
    if outcome.unfit and outcome.trouble:
        return f"{words}: {outcome.trouble}"
    return f"{words}: {outcome.trouble.splitlines()[0]}" if outcome.trouble else words


def _ending(outcome: Outcome) -> str:
    code = outcome.exit_code
    if code == 0:
        return "finished"
    first = outcome.first_failure is not None or outcome.limit is not None
    if outcome.stopped_by is not None and not first:
        return f"was stopped by {signal.Signals(outcome.stopped_by).name} (exit code {code})"
    return f"failed (exit code {code})"


def loss_scale(summary: Summary | None) -> tuple[str, str] | None:
    """Text and level of the loss scale's line; None where there is nothing to tell."""
    if summary is None:
        return None
    calm = summary.verdict in ("settled", "searching") and not summary.at_minimum
    return summary.text, "info" if calm else "warning"
