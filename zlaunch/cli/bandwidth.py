"""Measures all-reduce at a place: a run like any other, but one that leaves nothing behind."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import zlaunch
from zlaunch.cli.place import Place
from zlaunch.cli.prepare import Prepared, prepare
from zlaunch.cli.request import Request
from zlaunch.cli.start import describe_rank, make_console
from zlaunch.errors import InputError
from zlaunch.insight.bandwidth import Bandwidth, read_bandwidth
from zlaunch.insight.loss_scale import LossScaleState
from zlaunch.launcher import report
from zlaunch.launcher.launcher import FORWARDED_SIGNALS, Launcher
from zlaunch.launcher.output import Output
from zlaunch.run.outcome import ZLAUNCH_FAILED, Outcome
from zlaunch.system.loop import STOP_SIGNALS, Loop
from zlaunch.system.rundir import RunDir, RunStore, new_run_id, unwritable

WORKER = Path(zlaunch.__file__).parent / "workers" / "all_reduce.py"
TIMED_OUT = 124

_GRACE = 5.0  # seconds; there is nothing to save
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


@dataclass(frozen=True)
class Failure:
    """Why there are no results, or not all; `words` are the last lines of the rank that failed."""

    message: str
    exit_code: int
    words: tuple[str, ...] = ()
    hint: str | None = None


@dataclass(frozen=True)
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
    with _run_directory(place) as run, _signals_restored():
        run.create()
        script, text = run.path / WORKER.name, WORKER.read_text("utf-8")
        run.write_text(script, text)
        # Without DeepSpeed, and wherever the agents are: the script looks at no file.
        request = Request(str(script), recipe="ddp", target="plain", python=python)
        prepared = prepare(request, env, run, place)
        plan = prepared.plan
        workers = tuple(replace(spec, cwd=None) for spec in plan.workers)
        files = (*plan.files, (str(script), text)) if place.remote else ()
        plan = replace(plan, workers=workers, files=files)
        return _carry_out(replace(prepared, plan=plan, console_ranks=frozenset()), run, env, limit)


def _carry_out(
    prepared: Prepared, run: RunDir, env: Mapping[str, str], limit: float
) -> Measurement:
    place, plan = prepared.place, prepared.plan
    loop = Loop()
    console = make_console(loop, prepared, env, quiet=True)
    output = Output(run, console, range(plan.topology.world_size), LossScaleState(), verbose=True)
    launcher = Launcher(plan, place.backend, loop, console, output, _GRACE, place.patience)
    limited = _Limit(loop, launcher, limit)
    try:
        outcome = launcher.run()
        lines = run.log(0).read_text("utf-8", errors="replace").splitlines()
        bandwidth = read_bandwidth(lines, [host.name for host in place.hosts])
        failure = limited.failure or _failure(outcome, launcher, output, prepared)
        if failure is None and not bandwidth.complete:
            failure = Failure("the ranks ended without a result", ZLAUNCH_FAILED)
        return Measurement(bandwidth, failure)
    finally:
        console.close()
        output.close()
        loop.close()


class _Limit:
    """Stops the run when its time is up."""

    def __init__(self, loop: Loop, launcher: Launcher, seconds: float) -> None:
        self.failure: Failure | None = None
        self._launcher = launcher
        self._seconds = seconds
        loop.after(seconds, self._over)

    def _over(self) -> None:
        self.failure = Failure(
            f"measuring all-reduce took more than {self._seconds:g} s and was stopped", TIMED_OUT
        )
        self._launcher.interrupt(signal.SIGTERM)


def _failure(
    outcome: Outcome, launcher: Launcher, output: Output, prepared: Prepared
) -> Failure | None:
    code, first = outcome.exit_code, outcome.first_failure
    if code == 0:
        return None
    if first is not None:
        where = describe_rank(first.rank, prepared)
        said = output.last_words(first.rank)
        words = tuple(line.decode(errors="replace") for line in said)
        message = report.failure(first, launcher.pids.get(first.rank), where)
        return Failure(message, code, words, hint_for(words))
    if outcome.stopped_by is not None:
        name = signal.Signals(outcome.stopped_by).name
        return Failure(f"measuring all-reduce was stopped by {name}", code)
    return Failure(outcome.trouble or "measuring all-reduce did not end well", code)


def hint_for(words: Iterable[str]) -> str | None:
    """The way out of what goes wrong most often, known by a failing rank's last lines."""
    text = "\n".join(words)
    return next((hint for sign, hint in _HINTS.items() if sign in text), None)


@contextmanager
def _run_directory(place: Place) -> Iterator[RunDir]:
    """Give a run directory that is gone afterwards.

    Other hosts get it at the same path, so there it is in the one directory that all have.
    """
    parent = "/tmp" if place.remote else None  # noqa: S108 - and a name that nobody can guess
    try:
        made = tempfile.TemporaryDirectory(prefix="zlaunch-", dir=parent)
    except OSError as error:
        where = Path(parent or tempfile.gettempdir())
        raise InputError(unwritable(where, error).message, hint="free space there") from error
    with made as folder:
        yield RunStore(Path(folder)).run(new_run_id())


@contextmanager
def _signals_restored() -> Iterator[None]:
    """Give signals back to who had them: a launcher keeps them, since its process ends with it."""
    before = {s: signal.getsignal(s) for s in (*STOP_SIGNALS, *FORWARDED_SIGNALS)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler or signal.SIG_DFL)
