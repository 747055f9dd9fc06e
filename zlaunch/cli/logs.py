"""`zlaunch logs`: what the ranks of a run wrote, live or afterwards."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from zlaunch.cli.how_ended import say_how_it_ended
from zlaunch.cli.log_choice import (
    Choice,
    ErrorsOption,
    GrepOption,
    HostOption,
    MergeOption,
    RankOption,
    SinceOption,
    choose,
)
from zlaunch.cli.log_export import export
from zlaunch.cli.log_view import find_begin, from_the_end, show_logs
from zlaunch.cli.one_run import RunArgument, find_run, no_ranks_yet, say
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.errors import InputError
from zlaunch.system.follow import wait_until_planned
from zlaunch.system.rank_log import files_of
from zlaunch.system.rundir import RunDir


class _Group(TyperGroup):
    """Somebody who names a run and no command wants to see its logs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            alike = difflib.get_close_matches(args[0], known, n=1)
            meant = f"did you mean {alike[0]}?" if alike else f"zlaunch logs tail {args[0]}"
            hint = f"{meant} (`zlaunch logs --help` lists all)"
            raise InputError(f"there is no command 'logs {args[0]}'", hint=hint)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Group,
    help="Show and follow what the ranks of a run write.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FEW = 10  # lines
_DIGITS = 19  # of a number that is one


@app.command()
def tail(
    run: RunArgument = None,
    rank: RankOption = "all",
    host: HostOption = None,
    lines: Annotated[
        str | None,
        typer.Option(
            "-n", "--lines", metavar="N", help="Of each rank, to begin with; or all. Default: 10."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f", help="Go on until the run ends.")
    ] = True,
    since: SinceOption = None,
    grep: GrepOption = None,
    errors: ErrorsOption = False,
    merge: MergeOption = False,
) -> None:
    """Show the last lines of each rank, and follow the run.

    It ends when the run does, and says how; Ctrl-C leaves the run as it is. Of a run that was
    started again, the last attempt and those that follow; with -n all or --since, all attempts.
    """
    found = find_run(run)
    count = _count(lines, _FEW if since is None else None)
    if follow and (waits := no_ranks_yet(found.read_record())):
        say(waits)
        if wait_until_planned(found) and lines is None:
            count = None  # who was there first misses nothing
    choice = choose(found, rank, host, since, grep, errors=errors, merge=merge)
    _say_why_empty(found)
    follow = follow and not found.read_record().is_over  # else there is nothing to come
    with reader_may_leave():
        begin = find_begin(found, choice, count, follow=follow)
        show_logs(found, choice, begin, follow=follow)
    _say_how_it_ended(found)


def follow_all(run: RunDir, begun: Callable[[], None], *, from_start: bool) -> None:
    """Show what all ranks write until the run has ended, from now on or all of it.

    `begun` is called once it is known where that begins.
    """
    choice = Choice(tuple(range(run.read_record().world_size)))
    begin = find_begin(run, choice, None, follow=True) if from_start else from_the_end(run, choice)
    show_logs(run, choice, begin, follow=True, begun=begun)


@app.command()
def show(
    run: RunArgument = None,
    rank: RankOption = "all",
    host: HostOption = None,
    since: SinceOption = None,
    grep: GrepOption = None,
    errors: ErrorsOption = False,
    merge: MergeOption = False,
) -> None:
    """Show all that the ranks wrote, one after the other.

    In all attempts, as far as --log-max has kept it.
    """
    found = find_run(run)
    choice = choose(found, rank, host, since, grep, errors=errors, merge=merge)
    _say_why_empty(found)
    with reader_may_leave():
        begin = find_begin(found, choice, None, follow=False)
        show_logs(found, choice, begin, follow=False)
    _say_how_it_ended(found)


@app.command()
def path(run: RunArgument = None, rank: RankOption = "", host: HostOption = None) -> None:
    """Print where the logs are.

    The directory, or with --rank or --host the files, of each rank the oldest first.
    """
    found = find_run(run)
    if not rank and host is None:
        typer.echo(found.logs)
        return
    choice = choose(found, rank or "all", host, None, None, errors=False, merge=False)
    for number in choice.ranks:
        for attempt in range(found.last_attempt(number) + 1):
            for file in files_of(found, number, attempt):
                typer.echo(file.path)


app.command()(export)


def _count(text: str | None, default: int | None) -> int | None:
    """The number that -n asks for; None for all."""
    if text is None:
        return default
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS):
        raise InputError(f"-n {text} is no number of lines", hint="write 100, or all")
    return int(text)


def _say_why_empty(run: RunDir) -> None:
    """A run in which no rank was started has empty logs, and a reason."""
    record = run.read_record()
    outcome = record.outcome or {}
    if waits := no_ranks_yet(record):
        say(waits)
    if record.nothing_started:
        why = f": {outcome['trouble']}" if outcome.get("trouble") else ""
        say(f"run {record.id} started no rank{why}")


def _say_how_it_ended(run: RunDir) -> None:
    """What ranks wrote last is often not what was wrong; of one that started none it is said."""
    with suppress(InputError):  # removed meanwhile
        record = run.read_record()
        if not record.nothing_started:
            say_how_it_ended(run, record)
