"""`zlaunch ps`, and names: what shows on a narrow terminal, and records that are broken."""

from __future__ import annotations

import json
import os

import pytest
from journeys import Journey


def test_the_state_shows_on_a_narrow_terminal(journey: Journey) -> None:
    script = journey.script("")
    journey.zlaunch("run", "-q", "--cpu", "1", "--name", "mine", script, "x" * 500)
    live, ours = journey.on_terminal("ps", columns=80)
    table = live.end().out
    os.close(ours)
    row = table.splitlines()[1]
    assert "mine" in row
    assert "finished" in row
    assert len(row) <= 80


def test_a_name_wins_over_the_beginning_of_an_id(journey: Journey) -> None:
    journey.zlaunch("run", "-q", "--cpu", "1", "--name", "20", journey.script("print('named')"))
    journey.zlaunch("run", "-q", "--cpu", "1", journey.script("print('other')", "o.py"))
    assert journey.zlaunch("logs", "show", "20").out == "0 | named\n"


@pytest.mark.parametrize("change", [{"started": 1e30}, {"command": [1]}, {"name": 5}, {"plan": 3}])
def test_a_record_of_wrong_types(journey: Journey, change: dict) -> None:
    journey.zlaunch("run", "-q", "--cpu", "1", journey.script("print('fine')"))
    record = journey.latest / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    journey.zlaunch("run", "-q", "--cpu", "1", "--name", "whole", journey.script(""))
    listed = journey.zlaunch("ps", "--json")
    assert [run["name"] for run in json.loads(listed.stdout)] == ["whole"]
    assert "cannot be read" in listed.err
