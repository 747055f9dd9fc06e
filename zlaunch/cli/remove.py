"""`zlaunch rm` and `zlaunch prune`: take runs that are over off the disk."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import Annotated

import typer

from zlaunch.cli.one_run import say
from zlaunch.errors import InputError, ZlaunchError
from zlaunch.system.run_removal import (
    is_with_slurm,
    refuse_if_alive,
    remove,
    remove_old_file,
    size,
)
from zlaunch.system.run_store import RunStore, home_directory
from zlaunch.system.rundir import RunDir

rm_app = typer.Typer(rich_markup_mode=None, add_completion=False)
prune_app = typer.Typer(rich_markup_mode=None, add_completion=False)

_HELP = {"help_option_names": ["-h", "--help"]}
_AGE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)([mhdw])")
_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}  # seconds


@rm_app.command("rm", context_settings=_HELP)
def rm(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Ids, beginnings of ids, or names.")
    ],
) -> None:
    """Remove runs that are over, with logs and all; none where one of them is running."""
    store = RunStore(home_directory(os.environ))
    found = {run.id: run for one in runs for run in store.find_all(one)}
    for run in found.values():
        refuse_if_alive(run)
    for run in found.values():
        remove(run)
        typer.echo(run.id)
    store.forget_latest()


@prune_app.command("prune", context_settings=_HELP)
def prune(
    older: Annotated[
        str, typer.Option("--older", metavar="AGE", help="Ended longer ago: 12h, 30d, 8w.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which ones; remove nothing.")
    ] = False,
) -> None:
    """Remove all runs that ended longer ago than AGE, finished, failed or lost."""
    before = time.time() - _seconds(older)
    store = RunStore(home_directory(os.environ))
    count = given_back = 0
    for run in map(store.run, store.ids()):
        if run.launcher_lives() or _last_sign(run) >= before or is_with_slurm(run):
            continue
        given_back += size(run)
        if not dry_run:
            remove(run)
        count += 1
        typer.echo(run.id)
    if not dry_run:
        for path in store.consoles():
            remove_old_file(path, before)
        store.forget_latest()
    removed = "would be removed" if dry_run else "removed"
    runs = f"{count} run{'s' if count != 1 else ''}"
    say(f"{runs} {removed} from {store.home}, {given_back / 1e6:,.1f} MB")


def _seconds(age: str) -> float:
    match = _AGE.fullmatch(age.strip())
    if match is None:
        raise InputError(
            f"--older {age or repr(age)} is no age", hint="a number and m, h, d or w: 30d"
        )
    seconds = float(match[1]) * _UNITS[match[2]]
    if not seconds:  # all runs of the user at one stroke: too easily not what was meant
        raise InputError(f"--older {age} would be all runs", hint="`zlaunch rm RUN...` names them")
    return seconds


def _last_sign(run: RunDir) -> float:
    """When the run ended; where nobody knows, when something in its directory last changed."""
    with suppress(ZlaunchError):
        ended = run.read_record().ended
        if ended is not None:
            return ended
    signs = [0.0]
    for path in (run.path, run.logs, run.events, *run.logs.glob("*.log")):
        with suppress(OSError):
            signs.append(path.lstat().st_mtime)
    return max(signs)
