"""`--live`: the view of `zlaunch top`, below what the ranks print."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from zlaunch.cli.board_plain import progress
from zlaunch.cli.snapshots import head
from zlaunch.launcher.live import Live, Paint
from zlaunch.launcher.view import Snapshot, View
from zlaunch.run.record import RunRecord
from zlaunch.system.console import Console
from zlaunch.system.footer import Painted
from zlaunch.system.loop import Loop


def show_live(
    loop: Loop, console: Console, view: View, record: RunRecord, env: Mapping[str, str]
) -> None:
    """Show how the run stands for as long as it goes on."""

    def painter() -> Paint:
        from zlaunch.cli.board_screen import Painter

        painter = Painter(env, sys.stdout.encoding)

        def paint(snapshot: Snapshot, columns: int, rows: int) -> Painted:
            return painter.paint({**head(record, time.time()), **snapshot}, columns, rows)

        return paint

    Live(loop, console, view, painter, progress)
