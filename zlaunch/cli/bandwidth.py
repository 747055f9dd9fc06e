"""Measures all-reduce at a place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import zlaunch
from zlaunch.cli.errand import Errand, Failure, send
from zlaunch.cli.place import Place
from zlaunch.frozen import frozen
from zlaunch.insight.bandwidth import Bandwidth, read_bandwidth
from zlaunch.run.outcome import ZLAUNCH_FAILED

WORKER = Path(zlaunch.__file__).parent / "workers" / "all_reduce.py"

_LIMIT, _LIMIT_PER_HOST = 180.0, 3.0  # seconds: torch from a slow disk, a minute for what hangs

_HINTS = {
    "No module named 'torch'": (
        "torch is in another interpreter: --python PATH, or python=PATH in the hostfile"
    ),
    "connectFullMesh failed with": (
        "gloo listens where a host's own name leads, and /etc/hosts may lead to 127.0.1.1; "
        "set GLOO_SOCKET_IFNAME to the network interface"
    ),
}


@frozen
class Measurement:
    """What was measured, up to the failure where there was one."""

    bandwidth: Bandwidth
    failure: Failure | None = None


def measure(
    place: Place, env: Mapping[str, str], *, python: str | None = None, limit: float | None = None
) -> Measurement:
    """Run all-reduce on every slot of `place`, for `limit` seconds at most.

    The rendezvous port of the place must be reserved still. `python` is as in a Request.
    Raises InputError for what cannot be started as asked.
    """
    if limit is None:
        limit = _LIMIT + _LIMIT_PER_HOST * len(place.hosts)
    files = ((WORKER.name, WORKER.read_text("utf-8")),)
    errand = Errand("measuring all-reduce", files, (), limit, hint_for)
    done = send(errand, place, env, python=python)
    bandwidth = read_bandwidth(done.lines[0], [host.name for host in place.hosts])
    failure = done.failure
    if failure is None and not bandwidth.complete:
        failure = Failure("the ranks ended without a result", ZLAUNCH_FAILED)
    return Measurement(bandwidth, failure)


def hint_for(words: Iterable[str]) -> str | None:
    """The way out of what goes wrong most often, known by a failing rank's last lines."""
    text = "\n".join(words)
    return next((hint for sign, hint in _HINTS.items() if sign in text), None)
