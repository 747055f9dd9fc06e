"""Batch scripts as text. That Slurm and sh read them so is tried in tests/slurm."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from zlaunch.errors import InputError
from zlaunch.spec.batch_script import (
    JobRequest,
    batch_script,
    read_array,
    read_gpus,
    read_limit,
    read_warning,
)


def test_a_script_says_what_is_asked_for_and_becomes_the_launcher() -> None:
    job = JobRequest(
        "big", nodes=2, gpus_per_node="a100:8", time="8:00:00", partition="p", account="a",
        qos="q", constraint="x&y", requeue=True, signal=("USR1", 120), options=("--mem=0",),
    )  # fmt: skip
    assert batch_script(job, "/home/u/runs/1", "/venv/bin/python").splitlines() == [
        "#!/bin/sh",
        "# Made by `zlaunch submit`; of the training nothing stands here.",
        "#SBATCH --job-name=big",
        "#SBATCH --output=/home/u/runs/1/console.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --nodes=2",
        "#SBATCH --gpus-per-node=a100:8",
        "#SBATCH --time=8:00:00",
        "#SBATCH --partition=p",
        "#SBATCH --account=a",
        "#SBATCH --qos=q",
        "#SBATCH --constraint=x&y",
        "#SBATCH --requeue",
        "#SBATCH --signal=B:USR1@120",
        "#SBATCH --mem=0",
        "cd /home/u/runs/1 && exec /venv/bin/python -m zlaunch __submitted /home/u/runs/1",
    ]


def test_each_task_of_an_array_has_a_directory(tmp_path: Path) -> None:
    """Slurm writes %a for the number, and the shell has a variable."""
    base = tmp_path / "it's $HOME %a"
    (tmp_path / "it's $HOME %a_7").mkdir()
    script = batch_script(JobRequest("x", array="0-9%2"), str(base), "/bin/echo")
    assert f'#SBATCH --output="{tmp_path}/it\'s $HOME %%a_%a/console.log"' in script
    done = subprocess.run(
        ["sh"], input=script, env={"SLURM_ARRAY_TASK_ID": "7"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == f"-m zlaunch __submitted {base}_7\n"


def test_what_slurm_would_read_otherwise_is_refused() -> None:
    for folder in ("/a\\b", "/a\nb"):
        with pytest.raises(InputError):
            batch_script(JobRequest("x"), folder, "python")


def test_variables_that_would_overrule_the_script() -> None:
    names = JobRequest("x", time="1", requeue=True).variables
    assert {"SBATCH_TIMELIMIT", "SBATCH_NO_REQUEUE", "SBATCH_OUTPUT"} <= names
    assert "SBATCH_PARTITION" not in names


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("3", (3,)), ("0-3", (0, 1, 2, 3)), ("0-3%2", (0, 1, 2, 3)), ("1,5, 7-9", (1, 5, 7, 8, 9)),
        ("0-15:4", (0, 4, 8, 12)), ("2,2,1-2", (2, 1)),
    ],
)  # fmt: skip
def test_tasks_of_an_array(text: str, tasks: tuple[int, ...]) -> None:
    assert read_array(text) == tasks


@pytest.mark.parametrize(
    "text", ["", "a", "3-1", "1-", "-1", "1-4:0", "1%", "1%0", "1%a", "0-20000", "1,,2", "٣"]
)
def test_what_is_no_array(text: str) -> None:
    with pytest.raises(InputError, match="--array"):
        read_array(text)


def test_a_warning_and_its_signal() -> None:
    assert read_warning("120s") == (None, 120)
    assert read_warning("5m") == (None, 300)
    assert read_warning("90") == (None, 90)
    assert read_warning("USR2@2h") == ("USR2", 7200)
    for text in ("", "0", "soon", "@5", "USR1@", "19h", "5 m", "-5s"):
        with pytest.raises(InputError, match="--signal-before"):
            read_warning(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300), ("5:30", 330), ("1:00:00", 3600), ("1-0", 86400), ("1-2:3", 93780),
        ("1-2:3:4", 93784), ("", None), ("infinite", None), ("1:2:3:4", None), ("-5", None),
    ],
)  # fmt: skip
def test_limits_of_time(text: str, seconds: int | None) -> None:
    assert read_limit(text) == seconds


def test_numbers_of_gpus() -> None:
    assert [read_gpus(text) for text in ("8", "a100:4", "gpu:2", "gpu:h200:1")] == [8, 4, 2, 1]
    for text in ("", "0", "a100", "8x", "a100:"):
        with pytest.raises(InputError, match="--gpus-per-node"):
            read_gpus(text)
