"""Real DeepSpeed output, printed again by a worker: what the console makes of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from journeys import Journey

RECORDINGS = Path(__file__).parents[1] / "recordings"
REPLAY = """
import os, sys
if os.environ["RANK"] == "0":
    data = open(sys.argv[1], "rb").read()
    if "lines" in sys.argv:
        for line in data.splitlines(keepends=True):
            os.write(1, line)
    while data and "lines" not in sys.argv:
        data = data[os.write(1, data):]
"""
SETTLING = ["overflow_stage1", "overflow_stage2", "overflow_stage3"]


def replay(journey: Journey, name: str, *how: str, ranks: int = 1) -> list[str]:
    """Let rank 0 print a recording; the console's lines, both streams on one pipe."""
    recording = RECORDINGS / f"{name}.log"
    script = journey.script(REPLAY)
    reader, writer = os.pipe()
    process = journey.popen(
        "run", "--cpu", str(ranks), script, str(recording), *how, stdout=writer, stderr=writer
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    assert process.wait(60) == 0
    assert journey.log() == recording.read_bytes()  # files keep every byte
    return text.splitlines()


def place(lines: list[str], pattern: str) -> int:
    """Where the one line stands that matches."""
    [found] = [i for i, line in enumerate(lines) if re.search(pattern, line)]
    return found


@pytest.mark.parametrize("how", ["lines", "at once"])
@pytest.mark.parametrize("name", SETTLING)
def test_the_flood_at_the_start_becomes_one_line(journey: Journey, name: str, how: str) -> None:
    lines = replay(journey, name, how)
    searching = place(lines, r"^zlaunch: .*still being found .*16777216")
    warning = place(lines, r"^zlaunch: 5 steps in a row were skipped.*from 16777216 to 1048576")
    settled = place(lines, r"^zlaunch: loss scale settled at 65536 after 9 skipped steps")
    assert searching < warning < settled
    marked = [i for i, line in enumerate(lines) if "OVERFLOW!" in line]
    assert len(marked) == 4  # of 13: nine are folded, later ones are marked
    assert min(marked) > settled
    assert all(lines[i].startswith("0 | ! [") for i in marked)
    assert "normal" in lines[searching]


@pytest.mark.parametrize(
    ("name", "last"), [(SETTLING[0], 131072), (SETTLING[1], 65536), (SETTLING[2], 65536)]
)
def test_the_summary(journey: Journey, name: str, last: int) -> None:
    lines = replay(journey, name)
    [summary] = [line for line in lines if re.search(r"13 of 40 steps were skipped", line)]
    assert f"16777216 at first and {last} at last" in summary
    assert "settled" in summary
    assert lines.index(summary) == len(lines) - 2
    assert "finished" in lines[-1]


def test_a_scale_at_its_minimum(journey: Journey) -> None:
    lines = replay(journey, "minscale", "lines")
    warning = place(lines, r"^zlaunch: the loss scale fell to its minimum \(1\)")
    assert "bf16" in lines[warning]
    error = [i for i, line in enumerate(lines) if "already at minimum" in line]
    assert error
    assert all(lines[i].startswith("0 | ! ") and i > warning for i in error)
    [summary] = [line for line in lines if re.search(r"4 of 4 steps were skipped", line)]
    assert "8 at first and 1 at last" in summary
    assert "minimum" in summary


@pytest.mark.parametrize("how", ["lines", "at once"])
@pytest.mark.parametrize("name", [*SETTLING, "minscale"])
def test_words_stand_where_they_belong(journey: Journey, name: str, how: str) -> None:
    """All else is shown in its order; what is said of a line stands where the line was."""
    lines = replay(journey, name, how)
    source = (RECORDINGS / f"{name}.log").read_text().splitlines()
    shown = [re.sub(r"^0 \| (! )?", "", line) for line in lines if line.startswith("0 | ")]
    remaining = iter(source)
    for line in shown:
        assert any(line.rstrip() == other.rstrip() for other in remaining), line
    first = next(i for i, line in enumerate(source) if "OVERFLOW" in line)
    before = source[first - 1].rstrip()
    after = next(line for line in source[first:] if "OVERFLOW" not in line).rstrip()
    said = place(lines, r"is still being found \(step")
    if f"0 | {before}" in lines:
        assert lines.index(f"0 | {before}") < said
    assert said < lines.index(f"0 | {after}")


@pytest.mark.parametrize("how", ["at once"])
def test_the_folded_configuration_is_named_where_it_was(journey: Journey, how: str) -> None:
    lines = replay(journey, "overflow_stage2", how)
    before = place(lines, r"^0 \| .*step=0, skipped=0")
    folded = place(lines, r"^zlaunch: DeepSpeed's configuration, \d+ lines")
    assert before < folded < place(lines, r"is still being found \(step")


@pytest.mark.parametrize("name", ["auto", "badbatch", "badkey", "oom", "ordinal", "peerdies"])
def test_other_output_passes_as_it_is(journey: Journey, name: str) -> None:
    lines = replay(journey, name)
    source = (RECORDINGS / f"{name}.log").read_bytes().decode(errors="backslashreplace")
    source = re.sub(r"\x1b\[[0-9;]*[A-HJKS-Z]", "", source)
    shown = [line[4:] for line in lines if line.startswith("0 | ")]
    expected = [line.rstrip("\r").rpartition("\r")[2] for line in source.split("\n")]
    missing = [line for line in expected if line and line not in shown]
    assert not [line for line in missing if "config.py" not in line]
    assert not any("loss scale" in line for line in lines if line.startswith("zlaunch:"))


def test_a_silent_rank_beside_changes_nothing(journey: Journey) -> None:
    lines = replay(journey, "overflow_stage2", "lines", ranks=2)
    assert any("13 of 40 steps were skipped" in line for line in lines)


def test_both_ranks_tell_of_the_same_steps(journey: Journey) -> None:
    """Without ZeRO every rank prints its overflow; a step is counted once."""
    recording = RECORDINGS / "overflow_stage2.log"
    script = journey.script(REPLAY.replace('os.environ["RANK"] == "0"', "True"))
    done = journey.zlaunch("run", "--cpu", "2", script, str(recording))
    assert done.code == 0
    assert "13 of 40 steps were skipped" in done.err
    assert journey.log(0) == journey.log(1) == recording.read_bytes()
    assert done.err.count("is still being found (step") == 1


def test_a_hidden_rank_still_counts(journey: Journey) -> None:
    recording = RECORDINGS / "overflow_stage2.log"
    script = journey.script(REPLAY)
    done = journey.zlaunch("run", "--cpu", "2", "--console-ranks", "1", script, str(recording))
    assert done.out == ""
    assert "loss scale settled at 65536" in done.err
    assert "13 of 40 steps were skipped" in done.err


def test_the_configs_own_minimum_is_known(journey: Journey) -> None:
    """`min_loss_scale` of the run's ds_config is the floor that is warned at."""
    journey.script(
        '{"train_batch_size": 1, "fp16": {"enabled": true, "min_loss_scale": 65536}}', "c.json"
    )
    script = journey.script(REPLAY)
    recording = str(RECORDINGS / "overflow_stage2.log")
    env = {"CUDA_VISIBLE_DEVICES": "0"}  # fp16 is for GPUs; without a driver it is trusted
    done = journey.zlaunch("run", "--ds-config", "c.json", script, recording, env=env)
    assert done.code == 0, done.err
    assert "fell to its minimum (65536)" in done.err
