"""What the command of --on-exit is told."""

from __future__ import annotations

from zlaunch.launcher.exit_facts import VARIABLES, exit_facts
from zlaunch.run.job_end import JobEnd
from zlaunch.run.messages import Exit, Exited
from zlaunch.run.outcome import Outcome
from zlaunch.run.record import RUNNING, RunRecord

RUNS = RunRecord(
    id="20261201-000000-00000000",
    name=None,
    state=RUNNING,
    started=1000.0,
    command=("train.py",),
    cwd="/",
    world_size=2,
    plan={"workers": [{"host": "a"}, {"host": "localhost"}]},
    launcher_pid=1,
    version="0",
    host="here",
)


def facts(outcome: Outcome, cause: str | None = None) -> dict[str, str]:
    return exit_facts(RUNS.ended_with(outcome, 1002.25), "/r", "/r/logs", cause, "run ... ended")


def failed(rank: int, end: Exit) -> Outcome:
    exited = Exited(rank, end, 1001.0)
    return Outcome({rank: exited}, exited, attempts=1)


def test_a_run_that_finished_has_all_variables_and_no_cause() -> None:
    told = facts(Outcome({0: Exited(0, Exit(code=0), 1001.0)}, attempts=1), "stale")
    assert tuple(told) == VARIABLES
    assert told["ZLAUNCH_STATE"] == "finished"
    assert told["ZLAUNCH_EXIT_CODE"] == "0"
    assert told["ZLAUNCH_SECONDS"] == "2.2"
    assert told["ZLAUNCH_ATTEMPTS"] == "1"
    assert told["ZLAUNCH_CAUSE"] == told["ZLAUNCH_FIRST_FAILURE"] == told["ZLAUNCH_RUN_NAME"] == ""


def test_a_failure_names_the_rank_its_host_and_the_cause() -> None:
    told = facts(failed(0, Exit(code=3)), "out of memory")
    assert told["ZLAUNCH_STATE"] == "failed"
    assert told["ZLAUNCH_EXIT_CODE"] == "3"
    assert told["ZLAUNCH_FIRST_FAILURE"] == "0"
    assert told["ZLAUNCH_FIRST_FAILURE_HOST"] == "a"
    assert told["ZLAUNCH_CAUSE"] == "out of memory"


def test_this_machine_is_called_by_its_name_and_a_signal_is_a_cause() -> None:
    told = facts(failed(1, Exit(signal=9)))
    assert told["ZLAUNCH_FIRST_FAILURE_HOST"] == "here"
    assert told["ZLAUNCH_CAUSE"] == "signal 9"
    assert told["ZLAUNCH_EXIT_CODE"] == "137"


def test_what_slurm_did_is_the_cause_of_a_stop() -> None:
    end = JobEnd("job-cancelled", "7")
    told = facts(Outcome({}, attempts=1).within(end, "cancelled"), "cancelled by root")
    assert (told["ZLAUNCH_STATE"], told["ZLAUNCH_EXIT_CODE"]) == ("stopped", "143")
    assert told["ZLAUNCH_CAUSE"] == "cancelled by root"


def test_a_stop_a_limit_and_trouble_are_causes() -> None:
    stopped = facts(Outcome({}, stopped_by=15))
    assert (stopped["ZLAUNCH_STATE"], stopped["ZLAUNCH_CAUSE"]) == ("stopped", "stopped by SIGTERM")
    assert stopped["ZLAUNCH_ATTEMPTS"] == "0"
    limit = facts(Outcome({}, limit="no progress for 5 min"))
    assert (limit["ZLAUNCH_STATE"], limit["ZLAUNCH_EXIT_CODE"]) == ("failed", "124")
    assert limit["ZLAUNCH_CAUSE"] == "no progress for 5 min"
    assert facts(Outcome({}, trouble="a is gone"))["ZLAUNCH_CAUSE"] == "a is gone"


def test_each_is_one_line_that_an_environment_takes() -> None:
    told = facts(failed(0, Exit(code=1)), "first\nsecond\0 " + "x" * 10_000)
    assert told["ZLAUNCH_CAUSE"].startswith("first second xxx")
    assert len(told["ZLAUNCH_CAUSE"]) == 4096
