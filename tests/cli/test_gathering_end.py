"""An end that the launcher itself does not write down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zlaunch.system.run_store import RunStore
from zlaunch.system.rundir import RunDir

NOTES = 'echo "$ZLAUNCH_STATE $ZLAUNCH_EXIT_CODE $ZLAUNCH_CAUSE" >told'
# A process of its own, since what ends after a run takes all children along.
LAUNCHER = """
import sys
from pathlib import Path
from zlaunch.cli.gathering import Gathering
from zlaunch.cli.request import Request
from zlaunch.errors import BackendError, InputError
from zlaunch.run.record import RUNNING, RunRecord
from zlaunch.system.rundir import RunDir

run, notes, planned, error = RunDir(Path(sys.argv[1])), *sys.argv[2:]
with Gathering(Request("train.py", on_exit=notes), run).to_its_end():
    if planned:
        run.create()
        fields = ("train.py",), "/", 1, {"workers": [{"host": "localhost"}]}, 1, "0"
        run.write_record(RunRecord(run.id, None, RUNNING, 1000.0, *fields))
    raise eval(error)
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunStore(tmp_path / "home").run("20261201-000000-00000000")


def launch(run: RunDir, folder: Path, error: str, *, planned: bool) -> None:
    args = [sys.executable, "-c", LAUNCHER, str(run.path), NOTES, "yes" if planned else "", error]
    done = subprocess.run(args, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert error.startswith("SystemExit") or error.partition("(")[0] in done.stderr


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("RuntimeError('a fault of ours')", "failed 125 a fault of ours"),
        ("BackendError('no way there')", "failed 125 no way there"),
        ("KeyboardInterrupt()", "stopped 130 stopped by SIGINT"),
        ("SystemExit(129)", "stopped 129 stopped by SIGHUP"),
    ],
)
def test_what_ends_a_planned_run_is_written_and_told(
    run: RunDir, tmp_path: Path, error: str, told: str
) -> None:
    launch(run, tmp_path, error, planned=True)
    record = run.read_record()
    assert f"{record.state} {record.exit_code} " == told[: told.index(" ", 8) + 1]
    assert record.nothing_started
    assert (tmp_path / "told").read_text() == f"{told}\n"


def test_where_there_is_no_run_yet_there_is_nothing_to_tell(run: RunDir, tmp_path: Path) -> None:
    launch(run, tmp_path, "InputError('wrong')", planned=False)
    assert not (tmp_path / "told").exists()
    assert not run.path.exists()
