"""Memory as `zlaunch plan` predicts it, against what was measured on GPUs, as Markdown tables.

    python benchmarks/memory.py [RESULTS.jsonl ...]

Without files: the runs of benchmarks/measured/. With files: what benchmarks/gpus/memory.sh wrote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from zlaunch.memory.activations import Workload
from zlaunch.memory.buffers import CUDA_CONTEXT, nccl
from zlaunch.memory.estimate import Cluster, estimate, initial_states
from zlaunch.memory.fit import largest_micro_batch
from zlaunch.memory.model_config import shape_of_config
from zlaunch.memory.settings import read_settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.sizes import GIB

MEASURED = Path(__file__).parent / "measured"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def shape_of(row: dict[str, Any]) -> ModelShape:
    path = MEASURED / f"{row['model']}.json"
    return shape_of_config(path.read_text("utf-8"), str(path))


def work_of(row: dict[str, Any], shape: ModelShape) -> Workload:
    checkpointing = bool(row.get("checkpointing"))
    return Workload(row.get("micro_batch", 1), row["sequence"], checkpointing, shape.attention)


def predicted(row: dict[str, Any]) -> tuple[float, float, str]:
    """GiB at the peak and after initialisation, and the phase of the peak."""
    shape, settings = shape_of(row), read_settings(row["config"], half=True)
    found = estimate(shape, settings, Cluster(row["gpus"]), work_of(row, shape))
    initial = initial_states(shape, settings, row["gpus"])
    return found.peak.size / GIB, initial / GIB, found.peak.name


def predicted_beside(row: dict[str, Any]) -> float:
    """GiB beside torch's allocator."""
    settings = read_settings(row["config"], half=True)
    return (CUDA_CONTEXT + nccl(settings, row["gpus"])) / GIB


def predicted_largest(row: dict[str, Any]) -> int:
    """The largest micro batch where torch's allocator may take `cap_gib`.

    The cap leaves out what lies beside the allocator, so that is added to the card.
    """
    shape, settings = shape_of(row), read_settings(row["config"], half=True)
    beside = CUDA_CONTEXT + nccl(settings, row["gpus"])
    card = row["cap_gib"] * GIB + beside
    return largest_micro_batch(shape, settings, Cluster(row["gpus"]), work_of(row, shape), card)


def peaks(path: Path) -> None:
    print("| model | recipe | GPUs | tokens | batch | measured GiB | predicted | off | phase |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows(path):
        peak, _, phase = predicted(row)
        recipe = row["name"] + (", checkpointing" if row.get("checkpointing") else "")
        print(
            f"| {row['model']} | {recipe} | {row['gpus']} | {row['sequence']}"
            f" | {row['micro_batch']} | {row['peak_gib']:.2f} | {peak:.2f}"
            f" | {100 * (peak / row['peak_gib'] - 1):+.1f} % | {phase} |"
        )


def initials(path: Path) -> None:
    print("\n| model | recipe | GPUs | measured GiB after initialisation | predicted |")
    print("|---|---|---|---|---|")
    seen = {}
    for row in rows(path):
        if "initial_gib" in row:
            seen[row["model"], row["name"], row["gpus"]] = row
    for (model, name, gpus), row in seen.items():
        print(f"| {model} | {name} | {gpus} | {row['initial_gib']:.2f} | {predicted(row)[1]:.2f} |")


def beside(path: Path) -> None:
    """What the allocator reserved beyond what it gave out, and what lies beside it on the GPU."""
    found = [row for row in rows(path) if "reserved_gib" in row]
    if not found:
        return
    print("\n| model | recipe | GPUs | batch | reserved / allocated | GiB beside it | predicted |")
    print("|---|---|---|---|---|---|---|")
    for row in found:
        cells = (row["model"], row["name"], row["gpus"], row["micro_batch"])
        ratio = row["reserved_gib"] / row["peak_gib"]
        print(
            f"| {' | '.join(map(str, cells))} | {ratio:.3f} | {row['beside_gib']:.2f}"
            f" | {predicted_beside(row):.2f} |"
        )


def largest(path: Path) -> None:
    print("\n| model | recipe | GPUs | cap | largest batch seen | first that failed | predicted |")
    print("|---|---|---|---|---|---|---|")
    for row in rows(path):
        cells = (row["model"], row["name"], row["gpus"], f"{row['cap_gib']} GiB", row["fits"])
        print(f"| {' | '.join(map(str, cells))} | {row['too_many']} | {predicted_largest(row)} |")


def main() -> None:
    given = [Path(name) for name in sys.argv[1:]]
    for path in given or [MEASURED / "h200.jsonl"]:
        peaks(path)
        initials(path)
        beside(path)
    if not given:
        largest(MEASURED / "h200-largest.jsonl")


if __name__ == "__main__":
    main()
