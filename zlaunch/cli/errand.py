"""An errand: a program of ours on every slot of a place; a run that leaves nothing behind."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from zlaunch.cli.introduction import describe_rank, make_console
from zlaunch.cli.place import Place
from zlaunch.cli.prepare import Prepared, prepare
from zlaunch.cli.request import Request
from zlaunch.errors import InputError
from zlaunch.frozen import frozen
from zlaunch.insight.loss_scale import LossScaleState
from zlaunch.launcher import report
from zlaunch.launcher.forwarding import FORWARDED
from zlaunch.launcher.launcher import Launcher
from zlaunch.launcher.output import Output
from zlaunch.run.outcome import Outcome
from zlaunch.run.state import Rules
from zlaunch.system.loop import STOP_SIGNALS, Loop
from zlaunch.system.run_store import RunStore, new_run_id
from zlaunch.system.rundir import RunDir, unwritable

TIMED_OUT = 124
_GRACE = 5.0  # seconds; there is nothing to save


@frozen
class Errand:
    """What is done: in words, `measuring all-reduce`, and by which program.

    `files` (name, text) are the program and what it needs beside it. It has `limit` seconds.
    `hint` tells the way out by the last words of a rank that failed.
    """

    what: str
    files: tuple[tuple[str, str], ...]
    args: tuple[str, ...]
    limit: float
    hint: Callable[[Iterable[str]], str | None] = lambda _: None


@frozen
class Failure:
    """Why there are no results, or not all; `words` are the last lines of the rank that failed."""

    message: str
    exit_code: int
    words: tuple[str, ...] = ()
    hint: str | None = None


@frozen
class Done:
    """What each rank printed, and why that is not all, if so."""

    lines: Mapping[int, tuple[str, ...]]
    failure: Failure | None


def send(errand: Errand, place: Place, env: Mapping[str, str], *, python: str | None) -> Done:
    """Run it on every slot of `place`.

    The rendezvous port of the place must be reserved still. `python` is as in a Request.
    Raises InputError for what cannot be started as asked.
    """
    with _run_directory(place) as run, _signals_restored():
        run.create()
        files = tuple((str(run.path / name), text) for name, text in errand.files)
        for path, text in files:
            run.write_text(Path(path), text)
        # Without DeepSpeed, and wherever the agents are: the script looks at no file.
        request = Request(
            files[0][0], errand.args, recipe="ddp", target="plain", python=python, build_ops=False
        )
        prepared = prepare(request, env, run, place)
        plan = prepared.plan
        workers = tuple(replace(spec, cwd=None) for spec in plan.workers)
        sent = (*plan.files, *files) if place.remote else ()
        plan = replace(plan, workers=workers, files=sent)
        prepared = replace(prepared, plan=plan, console_ranks=frozenset())
        return _carry_out(errand, prepared, run, env)


def _carry_out(errand: Errand, prepared: Prepared, run: RunDir, env: Mapping[str, str]) -> Done:
    place, plan = prepared.place, prepared.plan
    loop = Loop()
    console = make_console(loop, prepared, env, quiet=True)
    ranks = range(plan.topology.world_size)
    output = Output(run, console, ranks, LossScaleState(), verbose=True)
    rules = Rules(_GRACE, place.patience.connect)
    launcher = Launcher(plan, place.backend, loop, console, output, rules, place.patience)
    limited = _Limit(loop, launcher, errand)
    try:
        outcome = launcher.run()
        texts = {rank: run.log(rank).read_text("utf-8", errors="replace") for rank in ranks}
        lines = {rank: tuple(text.splitlines()) for rank, text in texts.items()}
        failure = limited.failure or _failure(errand, outcome, launcher, output, prepared)
        return Done(lines, failure)
    finally:
        console.close()
        output.close()
        loop.close()


class _Limit:
    """Stops the run when its time is up."""

    def __init__(self, loop: Loop, launcher: Launcher, errand: Errand) -> None:
        self.failure: Failure | None = None
        self._launcher = launcher
        self._words = f"{errand.what} took more than {errand.limit:g} s and was stopped"
        loop.after(errand.limit, self._over)

    def _over(self) -> None:
        self.failure = Failure(self._words, TIMED_OUT)
        self._launcher.stopping.interrupt(signal.SIGTERM)


def _failure(
    errand: Errand, outcome: Outcome, launcher: Launcher, output: Output, prepared: Prepared
) -> Failure | None:
    code, first = outcome.exit_code, outcome.first_failure
    if code == 0:
        return None
    if first is not None:
        where = describe_rank(first.rank, prepared)
        said = output.last_words(first.rank)
        words = tuple(line.decode(errors="replace") for line in said)
        message = report.failure(first, launcher.pids.get(first.rank), where)
        return Failure(message, code, words, errand.hint(words))
    if outcome.stopped_by is not None:
        name = signal.Signals(outcome.stopped_by).name
        return Failure(f"{errand.what} was stopped by {name}", code)
    return Failure(outcome.trouble or f"{errand.what} did not end well", code)


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
    before = {s: signal.getsignal(s) for s in (*STOP_SIGNALS, *FORWARDED)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler or signal.SIG_DFL)
