"""How a run ended, and what is remembered of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from zlaunch.run.job_end import JobEnd
from zlaunch.run.messages import Exit, Exited
from zlaunch.run.outcome import Attempt, Outcome
from zlaunch.run.record import RunRecord

CLEAN = Exited(0, Exit(code=0), 3.0)
FAILED = Exited(1, Exit(code=3), 4.0)
KILLED = Exited(2, Exit(signal=9), 5.0)
SLURMS = Exited(2, Exit(signal=15), 5.0)
ALL_CLEAN = {0: CLEAN, 1: replace(CLEAN, rank=1)}

OUTCOMES = {
    "nothing was started": (Outcome({}), 0, "finished"),
    "all clean": (Outcome(ALL_CLEAN), 0, "finished"),
    "a rank failed": (Outcome({0: CLEAN, 1: FAILED}, FAILED), 3, "failed"),
    "a rank was killed": (Outcome({0: CLEAN, 2: KILLED}, KILLED), 137, "failed"),
    "stopped by INT": (Outcome(ALL_CLEAN, stopped_by=2), 130, "stopped"),
    "stopped by TERM, killed": (Outcome({2: KILLED}, stopped_by=15), 143, "stopped"),
    "stopped by HUP before the start": (Outcome({}, stopped_by=1), 129, "stopped"),
    "failed, then INT": (Outcome({1: FAILED}, FAILED, stopped_by=2), 3, "failed"),
    "trouble": (Outcome(ALL_CLEAN, trouble="agent lost"), 125, "failed"),
    "trouble and INT": (Outcome({}, stopped_by=2, trouble="agent lost"), 130, "stopped"),
    "failed, and trouble": (Outcome({1: FAILED}, FAILED, trouble="agent lost"), 3, "failed"),
    "a limit ran out": (Outcome({2: KILLED}, limit="--exit-limit"), 124, "failed"),
    "a limit ran out, then INT": (Outcome({}, stopped_by=2, limit="late"), 124, "failed"),
    "Slurm's time limit": (
        Outcome(ALL_CLEAN, stopped_by=15).within(JobEnd("job-time-limit", "7"), "it has come"),
        124,
        "failed",
    ),
    "a job was cancelled, and its signal was at a rank first": (
        Outcome({2: SLURMS}, SLURMS).within(JobEnd("job-cancelled", "7"), "cancelled"),
        143,
        "stopped",
    ),
    "a step was cancelled": (
        Outcome(ALL_CLEAN, trouble="n2").within(JobEnd("job-cancelled", "7"), "cancelled"),
        143,
        "stopped",
    ),
    "a rank had failed before the job was cancelled": (
        Outcome({1: FAILED}, FAILED).within(JobEnd("job-cancelled", "7", at=60.0), "cancelled"),
        3,
        "failed",
    ),
    "a rank that fails as it is told to end": (
        Outcome({1: FAILED}, FAILED).within(JobEnd("job-preempted", "7", at=4.5), "preempted"),
        143,
        "stopped",
    ),
    "a node failed, and Slurm's signal came": (
        Outcome(ALL_CLEAN, stopped_by=15).within(JobEnd("node-failed", "7"), "n2 failed"),
        125,
        "failed",
    ),
    "memory ran out for a rank": (
        Outcome({2: KILLED}, KILLED).within(JobEnd("job-out-of-memory", "7"), "no memory"),
        137,
        "failed",
    ),
    "memory ran out for an agent": (
        Outcome({}, trouble="n2").within(JobEnd("job-out-of-memory", "7"), "no memory"),
        125,
        "failed",
    ),
    "an end that nobody claimed": (Outcome({0: CLEAN, 2: KILLED}), 125, "failed"),
}

RECORD = RunRecord(
    id="20261130-041507-3fa2",
    name="näme",
    state="running",
    started=1000.25,
    command=("train.py", "", "--x=\udcff", "a\nb"),
    cwd="/tmp",
    world_size=2,
    plan={"run_id": "x", "workers": [{"rank": 0, "argv": ["a"]}]},
    launcher_pid=77,
    version="0.1.0",
)


@pytest.mark.parametrize(("outcome", "code", "state"), OUTCOMES.values(), ids=OUTCOMES)
def test_exit_code_and_state(outcome: Outcome, code: int, state: str) -> None:
    assert outcome.exit_code == code
    record = RECORD.ended_with(outcome, 2000.5)
    assert (record.state, record.exit_code, record.ended) == (state, code, 2000.5)
    assert replace(record, state="running", ended=None, exit_code=None, outcome=None) == RECORD


def as_read(record: RunRecord) -> RunRecord:
    return RunRecord.from_json(json.loads(json.dumps(record.to_json())))


@pytest.mark.parametrize("outcome", [entry[0] for entry in OUTCOMES.values()], ids=OUTCOMES)
def test_round_trip(outcome: Outcome) -> None:
    assert as_read(RECORD) == RECORD
    ended = RECORD.ended_with(outcome, 2000.5)
    assert as_read(ended) == ended


def test_what_is_kept_of_the_outcome() -> None:
    ends = {2: replace(KILLED, told=True), 0: CLEAN, 1: FAILED}
    past = (Attempt(0, 90.5, FAILED),)
    outcome = Outcome(ends, FAILED, stopped_by=2, trouble="slow", past=past, attempts=2)
    assert RECORD.ended_with(outcome, 6.0).outcome == {
        "first_failure": 1,
        "stopped_by": 2,
        "trouble": "slow",
        "limit": None,
        "attempts": 2,
        "slurm": None,
        "exits": {
            "0": {"code": 0, "signal": None, "at": 3.0},
            "1": {"code": 3, "signal": None, "at": 4.0, "told": False, "signs": {}},
            "2": {"code": None, "signal": 9, "at": 5.0, "told": True, "signs": {}},
        },
        "past": [
            {
                "attempt": 0,
                "seconds": 90.5,
                "first_failure": 1,
                "code": 3,
                "signal": None,
                "at": 4.0,
                "told": False,
                "signs": {},
            }
        ],
    }


def test_whether_anything_was_started() -> None:
    """A node that is lost with all its ranks tells no end of any."""
    assert RECORD.ended_with(Outcome({}, trouble="agent lost"), 6.0).nothing_started
    assert not RECORD.ended_with(Outcome({}, trouble="agent lost", attempts=1), 6.0).nothing_started
    assert not RECORD.ended_with(Outcome({0: CLEAN}), 6.0).nothing_started


def test_what_a_newer_version_adds_is_left_aside() -> None:
    assert RunRecord.from_json({**RECORD.to_json(), "mood": "good"}) == RECORD


def test_what_is_optional_may_be_absent() -> None:
    data = RECORD.to_json()
    for name in ("ended", "exit_code", "outcome"):
        del data[name]
    assert RunRecord.from_json(data) == RECORD


@pytest.mark.parametrize("missing", ["id", "command", "state", "plan", "launcher_pid"])
def test_what_is_no_record_is_refused(missing: str) -> None:
    data = RECORD.to_json()
    del data[missing]
    with pytest.raises((KeyError, TypeError)):
        RunRecord.from_json(data)
