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
    "one_line.py": ("nothing imported", (1, 2, 4), 5),
    "import_torch.py": ("`import torch`", (1, 2, 8), 3),
}
_WARM = {
    "import_torch.py": "`import torch`",
    "import_deepspeed.py": "`import torch`, `import deepspeed`",
}


def cases(bench: Bench) -> Iterator[Case]:
    for script, (what, counts, rounds) in _SCRIPTS.items():
        for ranks in counts:
            yield Case(
                f"{what}, {ranks} rank{'s' if ranks > 1 else ''}",
                bench.launchers.all(ranks, bench.script(script)),
                (Quantity("command to last rank's first line"),),
                partial(_measure, ranks),
                rounds=rounds,
            )
    for script, what in _WARM.items():
        launchers, path = bench.launchers, bench.script(script)
        yield Case(
            f"{what}, 8 ranks, `--start warm`",
            (
                launchers.zlaunch(8, "--start", "warm", "--no-build-ops", path),
                launchers.torchrun(8, path),
                launchers.deepspeed(8, path),
            ),
            (Quantity("command to last rank's first line"),),
            partial(_measure, 8),
            rounds=3,
        )


def _measure(ranks: int, contender: Contender) -> tuple[float]:
    (seconds,) = first_seen(contender, lambda text: len(set(_LINE.findall(text))) == ranks)
    assert seconds is not None
    return (seconds,)
