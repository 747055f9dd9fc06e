"""What a request says of hangs, for the launcher; and the roll-call for another shell."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import zlaunch
from zlaunch.cli.request import Request
from zlaunch.insight.roll_call import RollCall
from zlaunch.launcher.control import Reply
from zlaunch.launcher.whereabouts import StackOptions, Whereabouts
from zlaunch.run.control import answer
from zlaunch.system.run_stacks import keep_stacks
from zlaunch.system.rundir import RunDir

_HANDLER = Path(zlaunch.__file__).parent / "workers" / "stack_handler.py"


def stack_options(request: Request, run: RunDir) -> StackOptions:
    """Return how stacks of a run are taken, and when."""
    minutes = request.hang_timeout
    return StackOptions(
        handler=_HANDLER.read_text("utf-8") if request.stacks else "",
        limit=None if minutes is None else minutes * 60,
        stop=request.on_hang == "stop",
        keep=partial(keep_stacks, run),
    )


def answer_stacks(
    whereabouts: Whereabouts, run: RunDir, _fields: Mapping[str, Any], reply: Reply
) -> None:
    """Call the roll for `zlaunch stacks`."""

    def tell(roll: RollCall, path: str | None) -> None:
        reply(answer(file=path, **roll.to_json()))

    asked = time.strftime("%Y-%m-%d %H:%M:%S")
    whereabouts.call_roll(f"run {run.id}: asked for at {asked}", tell)
