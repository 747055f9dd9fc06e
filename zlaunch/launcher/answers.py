"""What a launcher does when another shell of its user asks: status, stop, signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from zlaunch.launcher.control import Handler, Reply, Stream
from zlaunch.launcher.forwarding import NOBODY, signal_name
from zlaunch.launcher.launcher import Launcher
from zlaunch.run.control import answer, refusal
from zlaunch.run.state import Phase


def answers(launcher: Launcher) -> dict[str, Handler]:
    """Return what answers each request."""
    return {
        "status": partial(_status, launcher),
        "stop": partial(_stop, launcher),
        "signal": partial(_signal, launcher),
    }


def streams(launcher: Launcher) -> dict[str, Stream]:
    """Return what answers requests for more than one answer."""
    return {"watch": partial(_watch, launcher)}


def _watch(launcher: Launcher, _fields: Mapping[str, Any], reply: Reply) -> Callable[[], None]:
    """Tell how things stand, each second."""
    return launcher.view.look(lambda snapshot: reply(answer(**snapshot)))


def _status(launcher: Launcher, _fields: Mapping[str, Any], reply: Reply) -> None:
    state = launcher.state
    reply(
        answer(
            phase=state.phase.value,
            attempt=state.attempt,
            most_restarts=state.rules.restarts.most,
            signals=[signal_name(signum) for signum in launcher.forwarding.signums],
        )
    )


def _stop(launcher: Launcher, fields: Mapping[str, Any], reply: Reply) -> None:
    """Whoever asks again without `now` wants the same as before, and ends no grace."""
    now = fields.get("now") is True
    state = launcher.state
    if now or state.phase not in (Phase.STOPPING, Phase.KILLING):
        launcher.stopping.asked(at_once=now)
    ranks = sorted(state.running) if state.has_ranks else []
    reply(answer(ranks=ranks, grace=0.0 if now else state.rules.grace))


def _signal(launcher: Launcher, fields: Mapping[str, Any], reply: Reply) -> None:
    signum, allowed = fields.get("signum"), launcher.forwarding.signums
    if not isinstance(signum, int) or signum not in allowed:
        names = ", ".join(map(signal_name, allowed)) or "none"
        reply(refusal(f"it passes on {names} (--forward-signals)"))
    elif not launcher.state.has_ranks:
        reply(refusal(NOBODY))
    else:
        launcher.forwarding.order(signum)
        reply(answer(ranks=sorted(launcher.state.running)))
