"""`zlaunch logs`: what the ranks of a run wrote, live or afterwards."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from zlaunch.cli.pipes import reader_may_leave
from zlaunch.errors import InputError
from zlaunch.launcher import report
from zlaunch.run.record import RunRecord
from zlaunch.spec.ranks import parse_ranks
from zlaunch.system.console import ProgressLines
from zlaunch.system.follow import Follower
from zlaunch.system.lines import LineCutter
from zlaunch.system.rundir import RunDir, RunStore, home_directory
from zlaunch.system.tail import last_lines, line_end

app = typer.Typer(
    help="Show and follow what the ranks of a run write.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Id, beginning of one, or name; the latest by default."),
]
RankOption = Annotated[str, typer.Option("--rank", help="0, 0,3-5, -1 for the last; all.")]
GrepOption = Annotated[
    str | None, typer.Option("--grep", metavar="RE", help="Only lines that match.")
]


@app.command()
def tail(
    run: RunArgument = None,
    rank: RankOption = "all",
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=0, help="Of each rank, to begin with.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("-f/--no-follow", "--follow", help="Go on until the run ends.")
    ] = True,
    grep: GrepOption = None,
) -> None:
    """Show the last lines of each rank, and follow a run that is still going on."""
    found = _find(run)
    ranks = _ranks(found, rank)
    _say_why_empty(found)
    with reader_may_leave():
        _tail(found, ranks, lines, grep, follow=follow)


def _tail(run: RunDir, ranks: list[int], lines: int, grep: str | None, *, follow: bool) -> None:
    show = _Printer(run, ranks, grep)
    ends = {number: line_end(run, number) for number in ranks}
    for number in ranks:
        # An unfinished line is left to the follower, which shows it whole.
        end = ends[number] if follow else None
        show.last_lines(number, last_lines(run, number, end=end), lines)
    if follow:
        follower = Follower(run, ends, show.take)
        try:
            follower.follow()
        finally:
            follower.close()
        show.finish()


@app.command()
def show(run: RunArgument = None, rank: RankOption = "all", grep: GrepOption = None) -> None:
    """Show all that the ranks wrote, rank after rank."""
    found = _find(run)
    ranks = _ranks(found, rank)
    _say_why_empty(found)
    printer = _Printer(found, ranks, grep)
    with reader_may_leave():
        for number in ranks:
            follower = Follower(found, {number: 0}, printer.take)
            follower.read_new()
            follower.close()
            printer.finish()


@app.command()
def path(run: RunArgument = None, rank: RankOption = "") -> None:
    """Print where the logs are: the directory, or the files of --rank."""
    found = _find(run)
    if not rank:
        typer.echo(found.logs)
        return
    for number in _ranks(found, rank):
        typer.echo(found.log(number))


def _find(reference: str | None) -> RunDir:
    return RunStore(home_directory(os.environ)).find(reference)


def _say_why_empty(run: RunDir) -> None:
    """A run in which no rank was started has empty logs, and a reason."""
    record = run.read_record()
    outcome = record.outcome or {}
    if record.nothing_started:
        why = f": {outcome['trouble']}" if outcome.get("trouble") else ""
        typer.echo(f"zlaunch: run {record.id} started no rank{why}", err=True)


def _ranks(run: RunDir, text: str) -> list[int]:
    return sorted(parse_ranks(text, run.read_record().world_size, "--rank"))


def _labels(record: RunRecord) -> dict[int, str]:
    try:
        hosts = {worker["rank"]: worker["host"] for worker in record.plan["workers"]}
        nodes = len(record.plan["nodes"])
    except (KeyError, TypeError):  # the ranks are known all the same
        hosts, nodes = dict.fromkeys(range(record.world_size), ""), 1
    return report.labels(hosts, record.world_size, nodes)


class _Printer:
    """Writes tagged lines to stdout; a progress bar as its last state."""

    def __init__(self, run: RunDir, ranks: list[int], grep: str | None) -> None:
        labels = _labels(run.read_record())
        self._tags = {rank: f"{labels[rank]} | ".encode() for rank in ranks}
        self._cutters = {rank: LineCutter() for rank in ranks}
        self._wanted = _matcher(grep)
        self._progress = ProgressLines(_print)

    def take(self, rank: int, data: bytes) -> None:
        """Show the lines that `data` completes, and now and then the state of a progress bar."""
        self._write(rank, self._cutters[rank].feed(data))
        if self._wanted is None:
            self._progress.update(rank, self._tags[rank], self._cutters[rank])

    def last_lines(self, rank: int, lines: list[bytes], count: int) -> None:
        """Show the last `count` of those that are wanted."""
        wanted = lines if self._wanted is None else list(filter(self._wanted, lines))
        self._write(rank, b"".join(line + b"\n" for line in wanted[-count:] if count))

    def finish(self) -> None:
        """Show last lines that have no newline."""
        for rank, cutter in self._cutters.items():
            self._write(rank, cutter.finish())

    def _write(self, rank: int, block: bytes) -> None:
        if self._wanted is not None:
            kept = filter(self._wanted, block.splitlines(keepends=True))
            block = b"".join(kept)
        if block:
            tag = self._tags[rank]
            _print(tag + block[:-1].replace(b"\n", b"\n" + tag) + b"\n")


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _matcher(grep: str | None) -> Callable[[bytes], object] | None:
    if grep is None:
        return None
    try:
        return re.compile(os.fsencode(grep)).search
    except re.error as error:
        raise InputError(f"--grep {grep}: {error}") from error
