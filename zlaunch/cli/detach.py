"""`--detach`: the command returns once the workers run, and the run goes on without a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from zlaunch.cli.one_run import say
from zlaunch.system.background import Away, leave
from zlaunch.system.rundir import RunDir


def here(run_id: str) -> str:
    """What to say once a run goes on without this terminal."""
    return (
        f"run {run_id} goes on without this terminal; `zlaunch attach {run_id}` shows it, "
        f"`zlaunch stop {run_id}` ends it"
    )


def on_member(folder: Path, node_rank: int, run_id: str) -> str:
    """The same on a node that has joined, on which the run is not known."""
    return (
        f"node {node_rank} of run {run_id} goes on without this terminal, and says what it has to "
        f"in {folder}/{run_id}-node-{node_rank}.log; `zlaunch stop {run_id}` on node 0 ends the run"
    )


def detach(
    run: RunDir,
    go_on: Callable[[Away], int],
    words: Callable[[str], str] = here,
    *,
    quiet: bool,
) -> int:
    """Have `go_on` carry the run out in a process of its own; return the exit code of this one.

    That is 0 once all workers run, with the run's id on stdout and `words` of it on stderr; else
    the one of `go_on`, after all that it said. To be called before there is any thread. Raises
    InputError where the place for the console's file cannot be written.
    """
    console = run.begin_console()
    side = leave(console, run.early_console)
    if isinstance(side, Away):
        try:
            return go_on(side)
        finally:
            run.drop_console()
    told = side.wait()
    if isinstance(told, int):
        run.drop_console()
        return told
    typer.echo(told)
    if not quiet:
        say(words(told))
    return 0
