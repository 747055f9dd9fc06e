"""Somebody clears the directory of leases while runs hold some, or wait for them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fake_nvml import Gpus
from journeys import Journey, eventually
from test_leases import JOB, go, holding


@pytest.fixture
def leases(journey: Journey) -> Path:
    """Where they are; made by the first run."""
    folder = journey.folder / "leases"
    journey.env["ZLAUNCH_LEASE_DIR"] = str(folder)
    return folder


@pytest.mark.parametrize("how", ["all of it", "its files", "put elsewhere"])
def test_what_is_held_stays_held(journey: Journey, gpus: Gpus, leases: Path, how: str) -> None:
    first = holding(journey, "--gpus", "0,2")
    if how == "all of it":
        shutil.rmtree(leases, ignore_errors=True)  # they may come back at once
    elif how == "its files":
        for file in leases.iterdir():
            file.unlink(missing_ok=True)
    else:
        leases.rename(leases.with_name("old"))
    first.until("removed by somebody; they were taken again")
    refused = journey.zlaunch("run", "--gpus", "2", journey.script(JOB), "0")
    assert refused.code == 2
    assert "GPU 2 is held by run " in refused.err
    go(journey)
    assert first.end().code == 0
    free = journey.zlaunch("run", "--gpus", "2", journey.script(JOB), "0")
    assert free.code == 0, free.err


def test_who_waits_goes_on_waiting(journey: Journey, gpus: Gpus, leases: Path) -> None:
    first = holding(journey, "--gpus", "1")
    script = journey.script(JOB)
    second = journey.start("run", "--wait", "--gpus", "1", "--name", "second", script, "0")
    second.until("waiting for GPUs: GPU 1 is held by run ")
    shutil.rmtree(leases, ignore_errors=True)  # they may come back at once
    first.until("removed by somebody; they were taken again")
    assert eventually(lambda: list(leases.glob("ticket-*")))
    assert "| on " not in second.text
    go(journey)
    assert second.end().code == 0
    assert "not protected" not in second.text
