"""`--metrics-port`: what is known of a run, for Prometheus on this machine; and for `top`."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zlaunch.launcher.control import Reply
from zlaunch.launcher.launcher import Launcher
from zlaunch.launcher.metrics import Metrics
from zlaunch.run.control import answer
from zlaunch.run.metrics import encode
from zlaunch.system.busy_port import listen
from zlaunch.system.console import Console
from zlaunch.system.loop import Loop

if TYPE_CHECKING:
    from zlaunch.launcher.metrics_port import MetricsPort

LOOPBACK = "127.0.0.1"


def listen_for_scrapes(port: int | None) -> socket.socket | None:
    """Take the port before anything starts; None where none was asked for.

    Raises InputError where it is busy.
    """
    if port is None:
        return None
    return listen(port, "choose another --metrics-port; 0 has a free one picked", LOOPBACK)


def serve(
    listener: socket.socket | None,
    loop: Loop,
    console: Console,
    run_id: str,
    launcher: Launcher,
    metrics: Metrics,
) -> MetricsPort | None:
    """Answer there from the loop, and say where."""
    if listener is None:
        return None
    from zlaunch.insight.exposition import CONTENT_TYPE, exposition
    from zlaunch.insight.metric_families import Standing, families
    from zlaunch.launcher.metrics_port import MetricsPort
    from zlaunch.run.scrape import PATH

    def page() -> bytes:
        state = launcher.state
        world, running = len(state.everyone), state.running if launcher.pids else ()
        standing = Standing(run_id, world, running, state.attempt)
        return exposition(families(standing, metrics.newest(), _left(metrics)))

    console.say(f"metrics: http://{LOOPBACK}:{listener.getsockname()[1]}{PATH}")
    return MetricsPort(loop, listener, page, CONTENT_TYPE)


def answer_metrics(metrics: Metrics, _fields: Mapping[str, Any], reply: Reply) -> None:
    """Give the newest of each rank and source, and the seconds left where they are known."""
    newest = [json.loads(encode(metric)) for metric in metrics.newest()]
    reply(answer(metrics=newest, seconds_left={str(r): s for r, s in _left(metrics).items()}))


def _left(metrics: Metrics) -> dict[int, float]:
    left = {rank: metrics.seconds_left(rank) for rank in metrics.ranks}
    return {rank: seconds for rank, seconds in left.items() if seconds is not None}
