"""`--on-exit`: tells the user's own command how the run ended."""

from __future__ import annotations

import os

from zlaunch.cli.request import Request
from zlaunch.run.record import RunRecord
from zlaunch.system.rundir import RunDir


def on_exit(
    request: Request, run: RunDir, record: RunRecord, cause: str | None, summary: str
) -> None:
    """Run the command that was asked for, if any, now that the run is over and recorded.

    `cause` is the title of what was found, `summary` the last line of the run.
    """
    if request.on_exit is None:
        return
    from zlaunch.launcher.exit_command import run_exit_command  # others do not pay for it
    from zlaunch.launcher.exit_facts import exit_facts

    # A launch inside another one's rank: the command is no rank of anybody.
    env = {name: value for name, value in os.environ.items() if name != "ZLAUNCH_NODE_RANK"}
    facts = exit_facts(record, str(run.path), str(run.logs), cause, summary)
    run_exit_command(request.on_exit, facts, env)
