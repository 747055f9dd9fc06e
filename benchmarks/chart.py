"""Draws what `run.py -o results.json` measured; needs matplotlib.

python benchmarks/chart.py results.json docs/start.svg
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from harness.contender import NAMES
from matplotlib.figure import Figure

# Title of the panel, and its cases with what they are called there.
PANELS: Sequence[tuple[str, str, Mapping[str, str]]] = (
    (
        "command to the last rank's first line",
        "command to last rank's first line",
        {
            "nothing imported, 1 rank": "1 rank\nbare",
            "nothing imported, 4 ranks": "4 ranks\nbare",
            "`import torch`, 1 rank": "1 rank\ntorch",
            "`import torch`, 8 ranks": "8 ranks\ntorch",
            "`import torch`, `import deepspeed`, 8 ranks": "8 ranks\n+ deepspeed",
        },
    ),
    (
        "a rank dies:\nuntil the end",
        "death to launcher's exit",
        {"rank 1 of 2 exits with 3": "2 ranks"},
    ),
    (
        "1,000,000 lines,\ntagged and filed",
        "command to exit",
        {"4 ranks print 250,000 lines each": "4 ranks"},
    ),
)
COLOURS = dict(zip(NAMES, ("#0b7285", "#adb5bd", "#868e96", "#495057"), strict=True))


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    measured = json.loads(source.read_text())["results"]
    mpl.rcParams.update({"font.size": 9, "svg.hashsalt": "zlaunch", "svg.fonttype": "none"})
    widths = [len(cases) + 0.4 for _, _, cases in PANELS]
    figure = Figure(figsize=(9.5, 3.1), layout="constrained")
    axes = figure.subplots(1, len(PANELS), width_ratios=widths)
    for axis, (title, quantity, cases) in zip(axes, PANELS, strict=True):
        typical = {r["case"]: r["typical"] for r in measured if r["quantity"] == quantity}
        _draw(axis, [typical.get(case, {}) for case in cases], list(cases.values()))
        axis.set_title(title, fontsize=9)
    axes[0].set_ylabel("seconds; less is better")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(NAMES), frameon=False)
    figure.savefig(target, metadata={"Date": None})


def _draw(axis: Any, groups: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> None:
    """One group of bars a case, one bar a contender; a gap where there is no number."""
    width = 0.8 / len(NAMES)
    for place, name in enumerate(NAMES):
        at = [index + (place - (len(NAMES) - 1) / 2) * width for index in range(len(groups))]
        values = [group.get(name) for group in groups]
        heights = [value if isinstance(value, (int, float)) else 0.0 for value in values]
        bars = axis.bar(at, heights, width, label=name, color=COLOURS[name])
        texts = [f"{height:.1f}" if height else "" for height in heights]
        axis.bar_label(bars, texts, fontsize=7, padding=1)
    axis.set_xticks(range(len(groups)), labels)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
