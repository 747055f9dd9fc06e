"""Start-up: from Enter until every rank has printed its first line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from harness.case import Bench, Case, Quantity
from harness.contender import Contender
from harness.process import first_seen

_LINE = re.compile(rb"first line of rank (\d+)\n")
_SCRIPTS = {
    "one_line.py": "nothing imported",
    "import_torch.py": "`import torch`",
    "import_deepspeed.py": "`import torch`, `import deepspeed`",
}
_RANKS = (1, 2, 4, 8)


def cases(bench: Bench) -> Iterator[Case]:
    for script, what in _SCRIPTS.items():
        for ranks in _RANKS:
            yield _case(bench, what, script, ranks)
    yield _case(bench, "`import torch` in each rank", "import_torch.py", 8, "--start", "cold")


def _case(bench: Bench, what: str, script: str, ranks: int, *how: str) -> Case:
    path = bench.script(script)
    # No rank uses an operator of DeepSpeed's, so none is to be compiled before they start.
    mine = bench.launchers.zlaunch(ranks, "--no-build-ops", *how, path)
    return Case(
        f"{what}, {ranks} rank{'s' if ranks > 1 else ''}",
        (mine, *bench.launchers.all(ranks, path)[1:]),
        (Quantity("command to last rank's first line"),),
        partial(_measure, ranks),
        rounds=3,
    )


def _measure(ranks: int, contender: Contender) -> tuple[float]:
    (seconds,) = first_seen(contender, lambda text: len(set(_LINE.findall(text))) == ranks)
    assert seconds is not None
    return (seconds,)
