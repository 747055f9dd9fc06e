"""Which part of a run's logs is meant: ranks, hosts, a time, lines that match or tell of errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from zlaunch.cli.one_run import no_ranks_yet
from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.run.record import RunRecord
from zlaunch.spec.ranks import parse_ranks
from zlaunch.system.rundir import RunDir

RankOption = Annotated[
    str, typer.Option("--rank", metavar="RANKS", help="0, 0,3-5, -1 for the last; all.")
]
HostOption = Annotated[
    str | None,
    typer.Option("--host", metavar="NAMES", help="Ranks on these hosts: gpu01,gpu[04-06] or gpu*."),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Written since: 10m, 2h, 14:05, an ISO time."),
]
GrepOption = Annotated[
    str | None, typer.Option("--grep", metavar="RE", help="Only lines that match.")
]
ErrorsOption = Annotated[
    bool, typer.Option("--errors", help="Only lines of errors; tracebacks whole.")
]
MergeOption = Annotated[
    bool, typer.Option("--merge", help="Lines of all ranks in the order in which they came.")
]

Filter = Callable[[bytes], bool]
"""Told each line of one rank, without its newline, in order: whether it is wanted."""


@frozen
class Choice:
    """What is to be shown. `since` is in seconds since the epoch."""

    ranks: tuple[int, ...]
    since: float | None = None
    grep: str | None = None
    errors: bool = False
    merge: bool = False

    def filter(self) -> Filter | None:
        """A new filter for the lines of one rank; None where all are wanted."""
        matches = _matcher(self.grep)
        if not self.errors:
            return matches
        from zlaunch.insight.error_lines import ErrorLines

        tells = ErrorLines().tells

        def wanted(line: bytes) -> bool:
            error = tells(line.decode("utf-8", "backslashreplace"))
            return error and (matches is None or matches(line))

        return wanted


def choose(
    run: RunDir,
    rank: str,
    host: str | None,
    since: str | None,
    grep: str | None,
    *,
    errors: bool,
    merge: bool,
) -> Choice:
    """Read the options.

    Raises InputError where one cannot be read, or the run has no index and one needs it.
    """
    record = run.read_record()
    if not record.world_size and (rank != "all" or host is not None):
        raise InputError(
            no_ranks_yet(record) or f"run {record.id} has no ranks: it started none",
            hint=f"`zlaunch status {record.id}` says how it stands",
        )
    ranks = parse_ranks(rank, record.world_size, "--rank")
    if host is not None:
        ranks &= _ranks_on(host, hosts_of(record))
    moment = None
    if since is not None:
        moment = _moment(since)
    if (since is not None or merge) and ranks and not run.arrivals.exists():
        option = "--merge" if since is None else "--since"
        raise InputError(
            f"{option}: run {run.id} is of an older zlaunch, which did not note when lines came",
            hint="without it all is shown, rank after rank",
        )
    _matcher(grep)
    if not ranks:  # nothing was noted of a run that has none
        return Choice(())
    return Choice(tuple(sorted(ranks)), moment, grep, errors, merge)


def _moment(text: str) -> float:
    from datetime import datetime

    from zlaunch.cli.moment import parse_moment

    return parse_moment(text, "--since", datetime.now().astimezone())


def hosts_of(record: RunRecord) -> dict[int, str]:
    """The host of each rank; empty where the record does not tell."""
    try:
        return {worker["rank"]: worker["host"] for worker in record.plan["workers"]}
    except (KeyError, TypeError):
        return {}


def _ranks_on(text: str, hosts: Mapping[int, str]) -> frozenset[int]:
    """The ranks on the hosts that are named: `gpu01,gpu[04-06]`, `gpu*`, as the plan has them."""
    from fnmatch import fnmatchcase

    from zlaunch.spec.hostnames import expand

    there = list(dict.fromkeys(hosts.values()))
    named: set[str] = set()
    for token in filter(None, re.split(r"[,@\s]+(?![^\[\]]*\])", text.strip())):
        wanted = expand(token)
        found = {
            host
            for host in there
            for name in wanted
            if host == name.strip("[]") or fnmatchcase(host, name)  # an IPv6 address has brackets
        }
        if not found:
            few = ", ".join(there[:8]) + (" ..." if there[8:] else "")
            raise InputError(
                f"--host {text}: no rank of this run is on {token}", hint=f"its hosts: {few}"
            )
        named |= found
    if not named:
        raise InputError("--host is empty", hint="leave it out")
    return frozenset(rank for rank, host in hosts.items() if host in named)


def _matcher(grep: str | None) -> Filter | None:
    if grep is None:
        return None
    try:
        search = re.compile(os.fsencode(grep)).search
    except (re.error, OverflowError, RecursionError) as error:  # a{99999999999}, ((((...
        raise InputError(
            f"--grep {grep}: {error}", hint="a regular expression, as Python's re reads it"
        ) from error
    return lambda line: search(line) is not None
