"""What is predicted against what two H200 showed (benchmarks/measured)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import memory as predictions  # noqa: E402

RUNS = predictions.rows(BENCHMARKS / "measured" / "h200.jsonl")
LLAMA = predictions.rows(BENCHMARKS / "measured" / "h200-llama-1b.jsonl")
LARGEST = predictions.rows(BENCHMARKS / "measured" / "h200-largest.jsonl")


@pytest.mark.parametrize(
    "row", RUNS, ids=[f"{row['model']}-{row['name']}-{row['micro_batch']}" for row in RUNS]
)
def test_the_peak_is_within_a_twentieth(row: dict[str, Any]) -> None:
    peak, initial, _ = predictions.predicted(row)
    assert peak == pytest.approx(row["peak_gib"], rel=0.05)
    if "initial_gib" in row:
        assert initial == pytest.approx(row["initial_gib"], rel=0.005)


@pytest.mark.parametrize("row", LARGEST, ids=[f"{row['model']}-{row['name']}" for row in LARGEST])
def test_the_largest_batch_is_within_a_tenth(row: dict[str, Any]) -> None:
    """Batches were tried in steps, so the real one lies between `fits` and `too_many`."""
    found = predictions.predicted_largest(row)
    assert row["fits"] * 0.9 <= found < row["too_many"] * 1.1
    if row["fits"] > 10:
        assert found == pytest.approx(row["fits"], rel=0.10)


@pytest.mark.parametrize("row", LLAMA, ids=[f"{row['name']}-{n}" for n, row in enumerate(LLAMA)])
def test_what_lies_beside_the_allocator(row: dict[str, Any]) -> None:
    """CUDA's context and NCCL; none of these rows is of one GPU."""
    assert predictions.predicted_beside(row) == pytest.approx(row["beside_gib"], abs=0.03)


def test_below_batch_8_the_step_decides() -> None:
    by_batch = {row["micro_batch"]: row for row in RUNS if row["name"] == "zero2"}
    assert predictions.predicted(by_batch[1])[2] == "optimizer step"
    assert predictions.predicted(by_batch[12])[2] == "loss"


def test_the_tables_of_the_docs_are_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["memory.py"])
    predictions.main()
    printed = [line for line in capsys.readouterr().out.splitlines() if line]
    written = (BENCHMARKS.parent / "docs" / "memory.md").read_text("utf-8").splitlines()
    assert len(printed) > 30
    assert [line for line in printed if line not in written] == []
