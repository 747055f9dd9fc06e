"""`zlaunch status`: how a run stands, or how it ended."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import typer

from zlaunch.cli.how_ended import cause_in_words, first_cause
from zlaunch.cli.one_run import (
    JsonOption,
    RunArgument,
    ask_launcher,
    ending,
    find_run,
    is_elsewhere,
    say,
)
from zlaunch.cli.past_run import job_end_of
from zlaunch.cli.pipes import reader_may_leave
from zlaunch.cli.slurm_queue import why_queued
from zlaunch.cli.visible import visible
from zlaunch.errors import ZlaunchError
from zlaunch.launcher.report import describe_exit, duration
from zlaunch.run.control import request
from zlaunch.run.job_end import JobEnd
from zlaunch.run.messages import Exit
from zlaunch.run.rank_states import ENDED, RankState, rank_states
from zlaunch.run.record import LOST, QUEUED, RUNNING, RunRecord
from zlaunch.spec.slots import gpu_in_words
from zlaunch.system.marked import find_marked
from zlaunch.system.rundir import RunDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_PATIENCE = 5.0  # seconds; most is known without the launcher


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def status(run: RunArgument = None, as_json: JsonOption = False) -> None:
    """Say how a run stands: what runs where, since when, and how and why it ended."""
    found = find_run(run)
    told = _told(found)
    with reader_may_leave():
        typer.echo(json.dumps(told, indent=2) if as_json else _text(told))


def _told(run: RunDir) -> dict[str, Any]:
    """All of it, as data."""
    record = run.read_record()
    live = _ask(run) if record.shown_state == RUNNING else {}
    record = run.read_record()  # it may have ended meanwhile
    running = not record.is_over
    queued = record.state == QUEUED
    states = rank_states(run.read_events(), record.world_size, over=record.state != RUNNING)
    begun = max((state.attempt for state in states), default=-1)
    until = time.time() if running else record.ended
    outcome = record.outcome or {}
    job_end = job_end_of(run, record)
    return {
        "id": record.id,
        "name": record.name,
        "state": record.shown_state,
        # starting, running, failing, stopping, killing, pausing; null where it is not known
        "phase": live.get("phase") if running else None,
        # for what others it waits before it can be planned
        "gathering": record.gathering if running else None,
        "waits_for": (why_queued(record) if queued else run.waits_for()) or None,
        # of a run that was submitted: how Slurm calls it
        "job": record.job or None,
        "ending": None if running else ending(record),
        "exit_code": record.exit_code,
        "started": _moment(record.started),
        "ended": _moment(record.ended),
        "seconds": None if until is None else round(until - record.started, 3),
        "attempt": begun + 1 if queued else live.get("attempt", max(0, begun)),
        "most_restarts": live.get("most_restarts"),
        "command": list(record.command),
        "cwd": record.cwd,
        "launcher": {"host": record.host or None, "pid": record.launcher_pid},
        "ranks": [
            _rank(run, record, rank, state) for rank, state in enumerate(states)
        ],
        **{name: outcome.get(name) for name in ("first_failure", "stopped_by", "limit", "trouble")},
        # the job of Slurm's that it was in, and how that ended, where it ended the run
        "slurm": _slurm(record, job_end),
        "cause": first_cause(run, record, job_end),
        # of a lost run: processes of it that are still here, and its last sign of life
        **(_of_lost(run, record) if record.state == LOST else {"left": None, "last_sign": None}),
        "paths": _paths(run),
    }  # fmt: skip


def _ask(run: RunDir) -> dict[str, Any]:
    """What only the launcher knows; the rest is told without it."""
    record = run.read_record()
    if record.job and is_elsewhere(record):  # its socket is one of that machine
        return {}
    try:
        return ask_launcher(run, request("status"), _PATIENCE)
    except ZlaunchError as error:
        if run.launcher_lives():
            say(str(error))
        return {}


def _rank(run: RunDir, record: RunRecord, rank: int, state: RankState) -> dict[str, Any]:
    worker = _worker(record, rank)
    return {
        "rank": rank,
        "host": worker.get("host"),
        "device": _device(worker),
        "pid": state.pid,
        "state": state.state,
        "exit_code": state.code,
        "signal": state.signal,
        "since": _moment(state.at),
        "log": str(run.log(rank, max(0, state.attempt))),
    }


def _worker(record: RunRecord, rank: int) -> dict[str, Any]:
    try:
        worker = record.plan["workers"][rank]
    except (KeyError, IndexError, TypeError):
        return {}
    return worker if isinstance(worker, dict) else {}


def _device(worker: dict[str, Any]) -> str | None:
    """`CPU`, `GPU 3`."""
    env = worker.get("env")
    on_cpu = isinstance(env, dict) and env.get("DS_ACCELERATOR") == "cpu"
    return None if "slot" not in worker else "CPU" if on_cpu else gpu_in_words(worker["slot"])


def _slurm(record: RunRecord, end: JobEnd | None) -> dict[str, Any] | None:
    if end is not None:
        from zlaunch.cli.job_end import in_words

        return {**end.to_json(), "text": in_words(end)}
    return {"job": record.slurm_job} if record.slurm_job else None


def _of_lost(run: RunDir, record: RunRecord) -> dict[str, Any]:
    """Agents end what they have started once their launcher is gone, those of other hosts too."""
    here = record.host in {"", socket.gethostname()}
    files = (run.record_path, run.arrivals, run.metrics, run.events)
    signs = [path.stat().st_mtime for path in files if path.exists()]
    return {
        "left": find_marked([f"ZLAUNCH_RUN_ID={run.id}"]) if here else None,
        "last_sign": _moment(max(signs, default=None)),
    }


def _left_in_words(left: list[int] | None) -> str | None:
    if left is None:
        return None
    if not left:
        return "its agent has ended its workers: no process of it is left on this machine"
    pids = ", ".join(map(str, left[:8])) + (", ..." if left[8:] else "")
    return f"{len(left)} processes of it on this machine, whose agent is ending them: pid {pids}"


def _paths(run: RunDir) -> dict[str, str | None]:
    there = {"console": run.console, "ds_config": run.ds_config}
    return {
        "run": str(run.path),
        "logs": str(run.logs),
        **{name: str(path) if path.exists() else None for name, path in there.items()},
    }


def _moment(at: float | None) -> str | None:
    return None if at is None else time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(at))


# As text


def _text(told: dict[str, Any]) -> str:
    lines = [f"run {told['id']}{_named(told)} {_how(told)}"]
    lines += [f"  {name:<9} {text}" for name, text in _facts(told) if text]
    return "\n".join([*lines, *(_table(told["ranks"]) if told["ranks"] else ())])


def _named(told: dict[str, Any]) -> str:
    return f" ({visible(told['name'])})" if told["name"] else ""


def _how(told: dict[str, Any]) -> str:
    took = duration(told["seconds"]) if told["seconds"] is not None else ""
    attempt = told["attempt"]
    most = f" of at most {told['most_restarts']}" if told["most_restarts"] else ""
    tries = f", restart {attempt}{most}" if attempt else ""
    if told["state"] == QUEUED:
        return f"is queued, for {took}" if not attempt else f"is queued, to go on{tries}"
    if told["gathering"] is not None:
        return f"is gathering, for {took}"
    if told["state"] == RUNNING:
        if told["waits_for"]:
            return f"waits for GPUs, for {took}"
        phase = f" ({told['phase']})" if told["phase"] not in {None, "running"} else ""
        return f"is running{phase}, for {took}{tries}"
    return told["ending"] if told["state"] == LOST else f"{told['ending']} after {took}{tries}"


def _facts(told: dict[str, Any]) -> list[tuple[str, str | None]]:
    launcher, cause = told["launcher"], told["cause"]
    has_launcher = told["ending"] is None and told["state"] != QUEUED
    where = f" on {launcher['host']}" if launcher["host"] else ""
    started, ended = (told[name] and told[name][:19] for name in ("started", "ended"))
    return [
        ("waits for", told["gathering"]),
        ("waits", visible(told["waits_for"] or "")),
        ("command", visible(" ".join(told["command"]))),
        ("in", told["cwd"]),
        ("job", told["job"]),
        ("launcher", f"pid {launcher['pid']}{where}" if has_launcher else None),
        ("started", started),
        ("ended", ended),
        ("last sign", told["last_sign"] and told["last_sign"][:19]),
        ("left", _left_in_words(told["left"])),
        ("slurm", _slurm_in_words(told)),
        ("cause", cause_in_words(told["id"], cause) if cause else None),
        ("logs", told["paths"]["logs"]),
        ("console", told["paths"]["console"]),
    ]


def _slurm_in_words(told: dict[str, Any]) -> str | None:
    """What the cause does not say already."""
    slurm, cause = told["slurm"] or {}, told["cause"] or {}
    text = slurm.get("text") or (f"job {slurm['job']}" if slurm else None)
    return None if text == cause.get("title") else text


def _table(ranks: list[dict[str, Any]]) -> list[str]:
    rows = [("RANK", "HOST", "DEVICE", "PID", "STATE"), *map(_row, ranks)]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]


def _row(rank: dict[str, Any]) -> tuple[str, ...]:
    state = rank["state"]
    if state == ENDED:
        state = describe_exit(Exit(code=rank["exit_code"], signal=rank["signal"]))
    cells = (rank["rank"], rank["host"], rank["device"], rank["pid"])
    return (*("" if cell is None else str(cell) for cell in cells), state)
